"""Fig. 8: distributions of similarities, one row a set of data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from equipoise.analysis.plots.figure import heading, page
from equipoise.analysis.similarities import Similarities
from equipoise.reports.plots import SERIES, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LABELS = {
    "positive": "image and its text",
    "negative": "image and another text",
    "images": "two images",
    "texts": "two texts",
}
COLOURS = dict(zip(LABELS, (SERIES[2], SERIES[1], SERIES[0], SERIES[3]), strict=True))


def draw_similarities(found: Mapping[str, Similarities], finding: str) -> Figure:
    """`found` by the name of the data."""
    with style():
        figure = page("How similar pairs are", finding, height=1.5 + 2.2 * len(found))
        panels = np.atleast_1d(figure.subplots(len(found), 1, sharex=True))
        for axes, (name, one) in zip(panels, found.items(), strict=True):
            _panel(axes, one)
            heading(axes, name)
            axes.set_ylabel("density")
        panels[-1].set_xlabel("similarity (without temperature)")
        panels[0].legend(loc="upper left")
    return figure


def _panel(axes: Axes, found: Similarities) -> None:
    edges = np.array(found.edges)
    for kind, spread in found.spreads.items():
        density = np.array(spread.counts) / (spread.total * np.diff(edges))
        axes.stairs(density, edges, color=COLOURS[kind], linewidth=1.6, label=LABELS[kind])
        axes.stairs(density, edges, color=COLOURS[kind], fill=True, alpha=0.14)
        axes.axvline(spread.mean, color=COLOURS[kind], linewidth=1, linestyle=(0, (3, 2)))
    axes.set_ylim(bottom=0)
    axes.margins(x=0)
