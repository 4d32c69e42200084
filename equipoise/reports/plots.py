"""Curves of a run, in one style for the whole project.

Figures are `Figure` objects, never pyplot's global state. Colours are Okabe and Ito's, told apart with any colour
vision. `svg` swaps them for CSS variables, so a figure within a page follows its light or dark scheme and its font;
`png` keeps them, for a figure that stands alone.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, GRID, PAPER = "#3c4450", "#e3e7ec", "#fefefe"
SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
CSS_VARIABLES = {INK: "--ink-soft", GRID: "--line", PAPER: "--card"} | {
    colour: f"--series-{number}" for number, colour in enumerate(SERIES, start=1)
}
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


def charts(clamp: float | None = None, temperature: str = "") -> tuple[Chart, ...]:
    """What a run shows; `clamp` is the largest value the temperature may take, `temperature` says how it went."""
    recalls = {way: f"{PREFIX}{key}_R@1" for way, key in WAYS.items()}
    return (
        Chart("Recall at 1, held-out pairs", recalls, "Higher is better.", percent=True),
        Chart("Loss", {"": "loss"}, "Falls fast, then slowly."),
        Chart(
            "Temperature exp(t)",
            {"": "temperature"},
            f"How far similarities are stretched. {temperature}".strip(),
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


def style() -> AbstractContextManager[None]:
    """The project's look, for every figure it makes."""
    import matplotlib as mpl

    return mpl.rc_context(
        {
            "font.family": "sans-serif", "font.size": 9, "text.color": INK,
            "axes.edgecolor": GRID, "axes.labelcolor": INK, "axes.facecolor": "none", "axes.grid": True,
            "axes.spines.top": False, "axes.spines.right": False, "axes.spines.left": False, "axes.axisbelow": True,
            "grid.color": GRID, "grid.linewidth": 0.7, "lines.linewidth": 1.7, "lines.solid_capstyle": "round",
            "xtick.color": INK, "ytick.color": INK, "xtick.major.size": 0, "ytick.major.size": 0,
            "ytick.minor.size": 0, "legend.frameon": False, "legend.fontsize": 8.5,
            "figure.facecolor": "none", "savefig.facecolor": "none", "svg.fonttype": "none",
        }
    )  # fmt: skip


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


def series(records: Sequence[Mapping[str, Any]], key: str) -> np.ndarray:
    """Steps and finite values of `key`, as rows [n, 2]."""
    points = [(record["step"], record[key]) for record in records if key in record and "step" in record]
    rows = np.array(points, dtype=float).reshape(-1, 2)
    return rows[np.isfinite(rows).all(axis=1)]


def binned(points: np.ndarray) -> np.ndarray:
    """At most `BINS` rows of step, mean, lowest and highest value, so that long runs stay small and honest."""
    groups = np.array_split(points, min(BINS, len(points)))
    return np.array([(g[:, 0].mean(), g[:, 1].mean(), g[:, 1].min(), g[:, 1].max()) for g in groups])


def svg(figure: Figure, label: str) -> str:
    """The figure as an `<svg>` element to be put into a page, read aloud as `label`."""
    import matplotlib as mpl

    buffer = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": label}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r'<g id="[^"]*"', "<g", text)  # ids are for the whole page, and figures would share these
    text = re.sub(r"font-family: [^;\"]*", "font-family: inherit", text)
    for colour, variable in CSS_VARIABLES.items():
        text = text.replace(colour, f"var({variable})")
    return re.sub(r'<svg [^>]*?(viewBox="[^"]*")[^>]*>', rf'<svg \1 role="img" aria-label="{label}">', text, count=1)


def png(figure: Figure, dpi: int = 160) -> bytes:
    """The figure as a PNG on white."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi, facecolor="white")
    return buffer.getvalue()


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
