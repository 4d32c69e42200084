"""Accuracy under a shift over accuracy without it, in logits: baselines, the line through them, and models.

What lies above the line is effective robustness (`evaluation/effective_robustness.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from equipoise.io.figures import INK, SERIES, style, svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Point = tuple[float, float]  # logits of accuracy, without and with the shift
SHARES = (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999)
MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")  # so that colour is not all that tells models apart


@dataclass(frozen=True)
class ShiftCloud:
    """One shift: what is drawn of it."""

    of: str  # the set on the x axis; SET:SHIFT is its accuracy among the shift's classes
    shift: str
    models: Mapping[str, Point]
    baselines: Sequence[Point]
    slope: float
    intercept: float


def cloud_chart(cloud: ShiftCloud) -> dict[str, Any]:
    """The picture for a page, with title and note."""
    from markupsafe import Markup

    of, _, part = cloud.of.partition(":")
    note = f"Accuracy on {of} is that among the classes of {part}." if part else ""
    title = f"{cloud.shift} over {of}"
    return {"title": title, "note": note, "svg": Markup(svg(_figure(cloud, of), f"Accuracies: {title}"))}


def _figure(cloud: ShiftCloud, of: str) -> Figure:
    from matplotlib.figure import Figure

    with style():
        figure = Figure(figsize=(4.2, 4.8), layout="constrained")
        axes = figure.subplots()
        xs, ys = (_span([point[way] for point in (*cloud.baselines, *cloud.models.values())]) for way in (0, 1))
        heights = [cloud.slope * x + cloud.intercept for x in xs]
        ys = (min(ys[0], *heights), max(ys[1], *heights))
        axes.plot(xs, heights, color=INK, linewidth=1.2, label="line through baselines", zorder=1)
        axes.plot(xs, xs, color=INK, linewidth=1, linestyle=":", label="no loss", zorder=1, scaley=False)
        x, y = ([point[way] for point in cloud.baselines] for way in (0, 1))
        axes.scatter(x, y, s=16, color=INK, alpha=0.5, label="baselines", zorder=2)
        for number, (name, point) in enumerate(cloud.models.items()):
            colour, mark = SERIES[number % len(SERIES)], MARKS[number % len(MARKS)]
            axes.scatter(point[0], point[1], s=46, color=colour, marker=mark, label=name, zorder=3)
        _shares(axes, xs, ys)
        axes.set_xlabel(f"{of}, %")
        axes.set_ylabel(f"{cloud.shift}, %")
        figure.legend(loc="outside lower center", ncols=2)
    return figure


def _span(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    room = 0.12 * (high - low) or 0.5
    return low - room, high + room


def _shares(axes: Axes, xs: Point, ys: Point) -> None:
    """Limits in logits, ticks in percent."""
    for axis, set_limits, ends in ((axes.xaxis, axes.set_xlim, xs), (axes.yaxis, axes.set_ylim, ys)):
        set_limits(*ends)
        inside = {math.log(p / (1 - p)): f"{100 * p:g}" for p in SHARES if ends[0] <= math.log(p / (1 - p)) <= ends[1]}
        axis.set_ticks(list(inside), list(inside.values()))
