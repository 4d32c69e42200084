"""Curves of a run: which charts a report shows, and how the records of metrics.jsonl fill them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from equipoise.io.figures import SERIES, SERIES_STYLES, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BINS = 160  # points a line is drawn with at most: as many as the eye can use at this size
PREFIX = "validation/"
WAYS = {"text → image": "text_to_image", "image → text": "image_to_text"}


@dataclass(frozen=True)
class Chart:
    """One picture: lines over steps, on one axis."""

    title: str
    lines: Mapping[str, str]  # label -> key in the records; one line needs no label
    note: str = ""  # what to look for
    percent: bool = False
    marks: Mapping[str, float] = field(default_factory=dict)  # label -> height of a dashed line


def charts(clamp: float | None = None, course: str = "") -> tuple[Chart, ...]:
    """What a run shows; `clamp` is the largest value the logit scale may take, `course` says how it went."""
    recalls = {way: f"{PREFIX}{key}_R@1" for way, key in WAYS.items()}
    return (
        Chart("Recall at 1, held-out pairs", recalls, "Higher is better.", percent=True),
        Chart("Loss", {"": "loss"}, "Falls fast, then slowly."),
        Chart(
            "Logit scale exp(t)",
            {"": "logit_scale"},
            f"How far similarities are stretched: 1/τ, the inverse of the temperature. {course}".strip(),
            marks={} if clamp is None else {"clamp": clamp},
        ),
        Chart(
            "Matches and closest negatives, in the batch",
            {"match": "batch/positive", "closest text": "batch/closest_text", "closest image": "batch/closest_image"},
            "Mean similarity. Matches should rise above the closest negatives.",
        ),
        Chart(
            "Negatives above the match, in the batch",
            {"texts": "batch/texts_above", "images": "batch/images_above"},
            "Share that is closer than the match.",
            percent=True,
        ),
        Chart(
            "Mixed negatives above the match",
            {"to images": "mix/above_image", "to texts": "mix/above_text"},
            "The same of the negatives that m²-Mix made, with the share it drew.",
            percent=True,
        ),
        Chart(
            "Alignment, held-out pairs",
            {way: f"{PREFIX}{key}_alignment" for way, key in WAYS.items()},
            "How much closer matches are than the closest of the rest. Higher is better.",
        ),
        Chart("Uniformity, held-out pairs", {"": f"{PREFIX}uniformity"}, "How evenly all points are spread."),
        Chart("Modality gap, held-out pairs", {"": f"{PREFIX}modality_gap"}, "Between the means of images and texts."),
        Chart(
            "What the guide leaves to the match",
            {"of images": "guide/match_image", "of texts": "guide/match_text"},
            "Share of the guide's softmax. Near 100% nothing is softened.",
            percent=True,
        ),
        Chart(
            "Whom the guide gives the rest to",
            {"of images": "guide/negatives_image", "of texts": "guide/negatives_text"},
            "So many others, as if evenly. Near all of the batch it tells nobody from anybody.",
        ),
        Chart(
            "What the guide knows",
            {"of images": "guide/auc_image", "of texts": "guide/auc_text"},
            "Pairs that are truly alike score above others with this chance; 50% is nothing.",
            percent=True,
        ),
        Chart("Bias of the logits", {"": "bias"}, "Added to every logit before its sigmoid."),
        Chart("Active codes", {way: f"codes/active_{way}" for way in ("image", "text")}, "With a share in a sample."),
        Chart(
            "Codes used alike",
            {way: f"codes/perplexity_{way}" for way in ("image", "text")},
            "exp of the entropy of usage; a fall to a few means that the code book collapses.",
        ),
        Chart(
            "Codes shared and dead",
            {"shared by a pair": "codes/overlap", "dead": "codes/dead"},
            "How much of an image's codes its text has too; codes that hardly anything uses.",
            percent=True,
        ),
        Chart("Learning rate", {"": "learning_rate"}, "Warms up, then follows its schedule."),
        Chart("Gradient norm", {"": "grad_norm"}, "Before clipping; spikes are hard batches."),
        Chart("Pairs per second", {"": "pairs_per_second"}, "Speed of training."),
    )


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
