"""Fig. 3: the temperature of runs over their steps, with the step at which each converged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from equipoise.analysis.plots.figure import SERIES_STYLES, page
from equipoise.analysis.temperature import TemperatureCurve
from equipoise.reports.plots import SERIES, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_temperatures(curves: Sequence[TemperatureCurve], bound: float | None, finding: str) -> Figure:
    """`bound` is the largest temperature allowed, where all runs share one."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    with style():
        figure = page("How the temperature moved", finding, height=4.2)
        axes = figure.subplots()
        axes.set_yscale("log")
        for number, curve in enumerate(curves):
            colour, dashes = SERIES[number % len(SERIES)], SERIES_STYLES[number // len(SERIES) % len(SERIES_STYLES)]
            axes.plot([0, *curve.steps], [curve.scales[0], *curve.scales], color=colour, linestyle=dashes,
                      label=f"{curve.label} → {curve.final:.3g}")  # fmt: skip
            if curve.converged is not None:
                at = curve.scales[int(np.searchsorted(curve.steps, curve.converged))]
                axes.plot([curve.converged], [at], "o", color=colour, markersize=6)
        if bound is not None and any(curve.at_bound for curve in curves):
            axes.axhline(bound, color=SERIES[1], linewidth=1, linestyle=(0, (4, 3)))
            axes.annotate(f"bound {bound:g}", (1, bound), (-2, 3), xycoords=("axes fraction", "data"),
                          textcoords="offset points", ha="right", color=SERIES[1], fontsize=8.5)  # fmt: skip
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda step, _: f"{step:,.0f}"))
        axes.set_xlim(left=0)
        axes.set_xlabel("step (a dot: converged, within 2% for an epoch from there on)")
        axes.set_ylabel("temperature exp(t)")
        figure.legend(loc="outside right upper")
    return figure
