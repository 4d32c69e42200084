"""Fig. 4: contours of the loss at two temperatures, and the gradient's norm over place and temperature."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from equipoise.analysis.plots.figure import heading, page
from equipoise.reports.plots import INK, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.contour import ContourSet
    from matplotlib.figure import Figure

COLOURS = "cividis"  # even to the eye, with any colour vision
LEVELS = 14


def draw_landscape(
    losses: np.ndarray, places: Sequence[float], at: Sequence[float],
    norms: np.ndarray, line: Sequence[float], scales: Sequence[float], finding: str,
) -> Figure:  # fmt: skip
    """`losses` [2, A, B] at the temperatures `at`; `norms` [T, A] at the places `line`, the temperatures `scales`."""
    with style():
        figure = page("The loss around the model", finding, width=10.5, height=3.9)
        panels = figure.subplots(1, 3)
        for axes, surface, scale in zip(panels, losses, at, strict=False):
            _contours(figure, axes, surface, places)
            heading(axes, f"Loss at temperature {scale:g}")
        _norms(figure, panels[2], norms, line, scales)
        heading(panels[2], "Norm of the gradient along δ")
    return figure


def _contours(figure: Figure, axes: Axes, surface: np.ndarray, places: Sequence[float]) -> None:
    filled = axes.contourf(places, places, surface.T, LEVELS, cmap=COLOURS)
    axes.contour(places, places, surface.T, LEVELS, colors="white", linewidths=0.4, alpha=0.6)
    axes.plot([0], [0], "+", color="white", markersize=9, markeredgewidth=1.6)
    axes.set_xlabel("along δ")
    axes.set_ylabel("along η")
    axes.set_box_aspect(1)
    axes.grid(False)
    _bar(figure, axes, filled)


def _norms(figure: Figure, axes: Axes, norms: np.ndarray, line: Sequence[float], scales: Sequence[float]) -> None:
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    lowest = max(float(norms.min()), float(norms.max()) * 1e-6, 1e-30)
    levels = np.geomspace(lowest, max(float(norms.max()), lowest * 1.01), LEVELS)
    filled = axes.contourf(
        line, scales, norms, levels, cmap=f"{COLOURS}_r", norm=LogNorm(levels[0], levels[-1]), extend="min"
    )
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(FixedLocator([1, 3, 10, 30, 100, 300, 1000]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.axvline(0, color=INK, linewidth=0.8, linestyle=(0, (2, 2)))
    axes.set_xlabel("along δ")
    axes.set_ylabel("temperature exp(t)")
    axes.set_box_aspect(1)
    axes.grid(False)
    _bar(figure, axes, filled, [10.0**power for power in range(-8, 9)])


def _bar(figure: Figure, axes: Axes, filled: ContourSet, ticks: Sequence[float] | None = None) -> None:
    from matplotlib.ticker import FuncFormatter

    shown = FuncFormatter(lambda value, _: f"{value:.3g}")
    bar = figure.colorbar(filled, ax=axes, shrink=0.82, pad=0.02, ticks=ticks, format=shown)
    bar.outline.set_visible(False)  # type: ignore[operator]
    bar.ax.tick_params(labelsize=8)
