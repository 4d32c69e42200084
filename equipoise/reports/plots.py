"""Curves of a run: how the records of metrics.jsonl fill its charts (`charts.py`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from equipoise.io.figures import SERIES, SERIES_STYLES, style
from equipoise.reports.charts import Chart

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BINS = 160  # points a line is drawn with at most: as many as the eye can use at this size


def draw(chart: Chart, records: Sequence[Mapping[str, Any]]) -> Figure | None:
    """The chart of these records, or None where they hold nothing to show."""
    lines = {label: points for label, key in chart.lines.items() if (points := series(records, key)).size}
    if not lines:
        return None
    with style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(3.7, 2.25), layout="constrained")
        axes = figure.add_subplot()
        for colour, (label, points) in zip(SERIES, lines.items(), strict=False):
            _line(axes, points, label, colour)
        for label, height in chart.marks.items():
            axes.axhline(height, color=SERIES[1], linewidth=1.2, linestyle=(0, (4, 3)))
            axes.annotate(f"{label} {height:g}", (1, height), (-2, -3), xycoords=("axes fraction", "data"),
                          textcoords="offset points", ha="right", va="top", color=SERIES[1], fontsize=8.5)  # fmt: skip
        _scale(axes, chart, lines)
    return figure


def draw_together(chart: Chart, runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> Figure | None:
    """The first line of the chart for each of several runs, by its label; None where no run has it."""
    key = next(iter(chart.lines.values()))
    lines = {label: points for label, records in runs.items() if (points := series(records, key)).size}
    if not lines:
        return None
    with style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(3.7, 2.25), layout="constrained")
        axes = figure.add_subplot()
        for number, (label, points) in enumerate(lines.items()):
            step, mean, _, _ = binned(points).T
            colour, dashes = SERIES[number % len(SERIES)], SERIES_STYLES[(number // len(SERIES)) % len(SERIES_STYLES)]
            marker = "o" if len(points) <= 20 else ""
            axes.plot(step, mean, color=colour, linestyle=dashes, label=label, marker=marker, markersize=3.5)
        _scale(axes, chart, lines)
    return figure


def series(records: Sequence[Mapping[str, Any]], key: str) -> np.ndarray:
    """Steps and finite values of `key`, as rows [n, 2]."""
    points = [(record["step"], record[key]) for record in records if key in record and "step" in record]
    rows = np.array(points, dtype=float).reshape(-1, 2)
    return rows[np.isfinite(rows).all(axis=1)]


def binned(points: np.ndarray) -> np.ndarray:
    """At most `BINS` rows of step, mean, lowest and highest value, so that long runs stay small and honest."""
    groups = np.array_split(points, min(BINS, len(points)))
    return np.array([(g[:, 0].mean(), g[:, 1].mean(), g[:, 1].min(), g[:, 1].max()) for g in groups])


def _line(axes: Axes, points: np.ndarray, label: str, colour: str) -> None:
    step, mean, low, high = binned(points).T
    marker = "o" if len(points) <= 20 else ""
    if len(points) > len(step):
        axes.fill_between(step, low, high, color=colour, alpha=0.18, linewidth=0)
    axes.plot(step, mean, color=colour, label=label, marker=marker, markersize=3.5)


def _scale(axes: Axes, chart: Chart, lines: Mapping[str, np.ndarray]) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    axes.set_xlabel("step")
    axes.margins(x=0.02)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda step, _: f"{step:,.0f}"))
    if chart.percent:
        axes.set_ylim(0, 1.03)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:.0f}%"))
    else:
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    if any(lines):
        axes.legend(loc="best")
