"""The figure of a claim: every seed of every row, and the intervals that its rule looks at."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from equipoise.io.figures import GRID, INK, SERIES, SERIES_STYLES, captioned_figure, panel_title, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Transform

Interval = tuple[str, float, float, float, float, bool]  # what, mean, low, high, margin, whether to be level
Point = tuple[float, float, float, float]  # place, mean, lowest, highest
LETTERS = 30  # of a label, a line
BESIDE = 4.0  # printer's points between series, so that their bars do not hide each other


def draw_claim(
    title: str, caption: str, metric: str, rows: Mapping[str, Sequence[float]], parts: Sequence[Interval]
) -> Figure:
    with style():
        height = 1.7 + 0.34 * max(len(rows), 1.4 * len(parts), 3)
        figure = captioned_figure(title, caption, width=9.0, height=height)
        left, right = figure.subplots(1, 2)
        _rows(left, rows)
        panel_title(left, metric)
        _intervals(right, parts)
        panel_title(right, "differences paired by seed, 95% intervals")
    return figure


def draw_curves(
    title: str,
    caption: str,
    metric: str,
    across: str,
    series: Mapping[str, Sequence[Point]],
    parts: Sequence[Interval],
    levels: Mapping[str, float] | None = None,
    log: bool = False,
) -> Figure:
    """The same with lines over an axis in place of rows; `levels` are lines across all of it."""
    with style():
        figure = captioned_figure(title, caption, width=9.0, height=3.9)
        left, right = figure.subplots(1, 2)
        for number, (label, points) in enumerate(series.items()):
            places, means, lows, highs = zip(*points, strict=True)
            colour, beside = SERIES[number % len(SERIES)], _moved(left, BESIDE * (number - (len(series) - 1) / 2))
            dashes = SERIES_STYLES[number % 4]
            left.plot(places, means, marker="o", color=colour, label=label, linestyle=dashes, transform=beside)
            left.vlines(places, lows, highs, color=colour, linewidth=1, transform=beside)
            left.update_datalim(list(zip(places * 2, lows + highs, strict=True)))  # what is moved is not looked at
        left.autoscale_view()
        if any(low < 0 < high for points in series.values() for _, _, low, high in points):
            left.axhline(0, color=INK, linewidth=0.8, zorder=1)
        for number, (label, height) in enumerate((levels or {}).items(), start=len(series)):
            left.axhline(height, color=SERIES[number % len(SERIES)], linestyle=SERIES_STYLES[number % 4], label=label)
        if log:
            _log_axis(left, [place for points in series.values() for place, *_ in points])
        left.set_xlabel(f"{across}\nbars: from the lowest seed to the highest")
        if len(series) + len(levels or {}) > 1:
            left.legend()
        panel_title(left, metric)
        _intervals(right, parts)
        panel_title(right, "differences paired by seed, 95% intervals")
    return figure


def _moved(axes: Axes, points: float) -> Transform:
    """Where the data lie, so many printer's points to the right."""
    from matplotlib.transforms import ScaledTranslation

    return axes.transData + ScaledTranslation(points / 72, 0, axes.figure.dpi_scale_trans)


def _log_axis(axes: Axes, places: Sequence[float]) -> None:
    """An axis of factors, with a number at every place but where two would lie on each other."""
    apart: list[int] = []
    for place in sorted({round(place) for place in places}):
        apart += [place] if not apart or place > 1.2 * apart[-1] else []
    axes.set_xscale("log")
    axes.minorticks_off()
    axes.set_xticks(apart, [f"{place:,}" for place in apart])


def _rows(axes: Axes, rows: Mapping[str, Sequence[float]]) -> None:
    for place, values in enumerate(rows.values()):
        if values:
            axes.plot(values, [place] * len(values), "o", color=SERIES[0], alpha=0.45, markersize=5)
            axes.plot([fmean(values)], [place], "|", color=INK, markersize=14, markeredgewidth=1.8)
    _labels(axes, list(rows))


def _intervals(axes: Axes, parts: Sequence[Interval]) -> None:
    for place, (_, mean, low, high, margin, is_level) in enumerate(parts):
        least = -margin if is_level else 0
        axes.plot([least, margin], [place] * 2, color=GRID, linewidth=12, solid_capstyle="butt")
        if math.isfinite(low):
            axes.plot([low, high], [place] * 2, color=SERIES[1], linewidth=2)
        axes.plot([mean], [place], "o", color=SERIES[1], markersize=5)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_xlabel("grey: smaller than is worth a word")
    _labels(axes, [part[0] for part in parts])


def _labels(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), ["\n".join(textwrap.wrap(name, LETTERS)) for name in names], fontsize=8)
    axes.set_ylim(max(len(names), 1) - 0.5, -0.5)
