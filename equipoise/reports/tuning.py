"""What a report says of fine-tuning: tables of before and after, and the curve over the places between."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equipoise.evaluation.results import metric
from equipoise.finetuning.comparison import START, Comparison
from equipoise.io.figures import INK, SERIES, style, svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CURVE, TEST = "Between start and end", "test"


def tuned_title(comparison: Comparison) -> str:
    """What was done, to which model."""
    start = Path(comparison.start).name or comparison.start
    return f"{start}, fine-tuned by {comparison.method}"


def tuned_verdict(comparison: Comparison) -> str:
    """One sentence: before and after."""
    known = metric(comparison.metric)
    name = " ".join(known.label.split())
    before, after = known.show(comparison.before), known.show(comparison.after)
    if comparison.is_better:
        return f"It helped: {name} on validation data was {before} before and is {after} after."
    return (
        f"It did not help: {name} on validation data was {before} before and {after} after, so the model here is "
        "the start model."
    )


def numbers_before(comparison: Comparison) -> Mapping[str, float]:
    """What the start model scored on the test data."""
    return comparison.numbers.get(TEST, {}).get(START, {})


def section(comparison: Comparison) -> dict[str, Any]:
    """What the template shows."""
    from markupsafe import Markup

    several = len(comparison.shares) > 1
    return {
        "words": _words(comparison),
        "tables": [(data, comparison.columns(data), comparison.rows(data)) for data in comparison.numbers],
        "curve": Markup(svg(draw_curve(comparison), f"Curve: {CURVE}")) if several else None,
        "title": CURVE,
    }


def _words(comparison: Comparison) -> str:
    """What the columns are, and what was not measured."""
    kept = f" Kept, and in this folder, is α = {comparison.chosen:g} of the way between them."
    told = "Start is the model as it was, tuned is where training ended." + kept
    left_out = comparison.left_out
    return f"{told} {left_out[0].upper()}{left_out[1:].rstrip('.')}." if left_out else told


def draw_curve(comparison: Comparison) -> Figure:
    """The score on validation data over the share of the end, beside that of the start."""
    with style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(5.2, 2.8), layout="constrained")
        axes = figure.add_subplot()
        axes.plot(comparison.shares, comparison.scores, color=SERIES[0], marker="o", markersize=3.5)
        axes.plot([comparison.chosen], [comparison.after], "o", color=SERIES[1], markersize=7)
        axes.axhline(comparison.before, color=INK, linewidth=1, linestyle=(0, (4, 3)))
        axes.annotate("start", (1, comparison.before), (-2, 3), xycoords=("axes fraction", "data"),
                      textcoords="offset points", ha="right", fontsize=8.5)  # fmt: skip
        axes.set_xlabel("share of the tuned weights (0: the start)")
        axes.set_ylabel(f"{metric(comparison.metric).short}, validation")
    return figure
