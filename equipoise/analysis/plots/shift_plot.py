"""What each amount of embedding shift makes of a metric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from equipoise.analysis.plots.figure import page
from equipoise.reports.plots import SERIES, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_shift(amounts: Sequence[float], values: Sequence[float], best: float, metric: str, finding: str) -> Figure:
    with style():
        figure = page("How far images and texts are shifted towards each other", finding)
        axes = figure.subplots()
        axes.plot(amounts, values, color=SERIES[0], marker=".")
        axes.axhline(values[list(amounts).index(0.0)], color=SERIES[1], linewidth=1, linestyle=(0, (4, 3)))
        axes.plot([best], [values[list(amounts).index(best)]], "o", color=SERIES[0], markersize=7)
        axes.set_xlabel("λ (above 0: closer; the dot: the best; dashed: not shifted)")
        axes.set_ylabel(f"{metric}, held out")
    return figure
