"""Named numbers out: as JSON in CLIP_benchmark's shape, and as a table for people.

One file holds one object with the keys `dataset, model, pretrained, task, metrics, language`, so that
`clip_benchmark build *.json` and the notebooks around it read ours beside their own. Recalls appear under our names
(open_clip's) and under CLIP_benchmark's, which are named after what is *found*: `text_retrieval_recall@k` is our
`image_to_text_R@k`. What only we know (chance, seed, versions, ...) goes under `equipoise`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equipoise.io.atomic import write_text

if TYPE_CHECKING:
    from rich.table import Table

TASKS = ("zeroshot_retrieval", "zeroshot_classification", "linear_probe")
FOUND = {"image_to_text": "text_retrieval", "text_to_image": "image_retrieval"}
ARROWS = {"image_to_text": "image → text", "text_to_image": "text → image"}

# last part of a metric's name -> (short name, what it says)
MEANINGS: Mapping[str, tuple[str, str]] = {
    "R@1": ("R@1", "Share of queries whose labelled match comes first."),
    "R@5": ("R@5", "Share of queries with a labelled match among the first 5."),
    "R@10": ("R@10", "Share of queries with a labelled match among the first 10."),
    "true_R@1": ("true R@1", "Share of queries whose first result truly matches, labelled or not."),
    "mAP@R": ("mAP@R", "How well all true matches are ranked: for a query with R of them, precision over the first R."),
    "R-Precision": ("R-Precision", "For a query with R true matches, the share of them among the first R results."),
    "queries": ("queries", "Number of queries with a labelled match; only these are counted."),
    "true_queries": ("true queries", "Number of queries with a true match; only these are counted."),
    "mean_recall": ("mean recall", "Average of R@1, R@5 and R@10 over both directions."),
    "rsum": ("rsum", "Sum of R@1, R@5 and R@10 over both directions, in percentage points: at most 600."),
    "acc1": ("accuracy", "Share of images whose class comes first, by prompts alone."),
    "acc5": ("top-5 accuracy", "Share of images whose class is among the first five."),
    "mean_per_class_recall": ("mean per-class recall", "Accuracy averaged over classes, so that each weighs the same."),
    "lp_acc1": ("accuracy", "Share of images whose class a linear map on frozen features gets right."),
    "lp_acc5": ("top-5 accuracy", "Share of images whose class is among its first five."),
    "lp_mean_per_class_recall": ("mean per-class recall", "Its accuracy averaged over classes."),
    "alignment": ("alignment", "How much closer matches are than the closest others, in squared distances."),
    "uniformity": ("uniformity", "How evenly all points are spread: -log mean exp(-2 distance²). Larger is more even."),
    "modality_gap": ("modality gap", "Distance between the mean of all images and the mean of all texts."),
    "positive_similarity": ("similarity of matches", "Mean similarity of an image and its own caption."),
    "closest_negative": ("closest negative", "Mean similarity to the closest one that does not belong."),
    "negatives_above": ("negatives above the match", "Share of what does not belong and yet is closer than the match."),
}  # fmt: skip
PLAIN = {"alignment", "uniformity", "modality gap", "similarity of matches", "closest negative"}


@dataclass(frozen=True)
class Metric:
    """A metric's name, taken apart for people."""

    direction: str  # "image → text", "text → image" or ""
    short: str
    meaning: str

    @property
    def is_count(self) -> bool:
        return self.short in {"queries", "true queries"}

    @property
    def is_share(self) -> bool:
        return not self.is_count and self.short != "rsum" and self.short not in PLAIN

    def show(self, value: float) -> str:
        """The value as it is printed: a percentage, percentage points, a count or a plain number."""
        if self.is_share:
            return percent(value)
        if self.short in PLAIN:
            return f"{value:.3f}"
        return f"{value:.1f}" if self.short == "rsum" else f"{value:,.0f}"


def metric(name: str) -> Metric:
    """What a metric's name means; a name we do not know is shown as it is."""
    if name.startswith("acc1_"):
        shift = name.removeprefix("acc1_").replace("_", " ")
        return Metric("", f"accuracy, {shift}", f"Share of images whose class comes first, of the test set: {shift}.")
    for prefix, arrow in ARROWS.items():
        if name.startswith(f"{prefix}_"):
            return Metric(arrow, *MEANINGS.get(rest := name.removeprefix(f"{prefix}_"), (rest, "")))
    return Metric("", *MEANINGS.get(name, (name, "")))


def percent(value: float) -> str:
    """A share with as many digits as carry meaning: 91.3%, 0.10%, 0.002%."""
    digits = 1 if value >= 0.01 or value == 0 else 2 if value >= 0.001 else 3
    return f"{100 * value:.{digits}f}%"


def results(
    *,
    dataset: str,
    model: str,
    pretrained: str,
    task: str,
    metrics: Mapping[str, float],
    language: str = "en",
    extras: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """One evaluation in CLIP_benchmark's shape."""
    assert task in TASKS, f"task must be one of {TASKS}, not {task!r}"
    return {
        "dataset": dataset,
        "model": model,
        "pretrained": pretrained,
        "task": task,
        "metrics": dict(metrics) | _clip_benchmark_names(metrics),
        "language": language,
        "equipoise": dict(extras or {}),
    }


def write_results(path: Path, **evaluation: Any) -> Path:
    """Write `results(**evaluation)` as JSON to `path`, whole or not at all."""
    write_text(path, json.dumps(results(**evaluation), indent=2, ensure_ascii=False, allow_nan=False) + "\n")
    return path


def table(metrics: Mapping[str, float], chance: Mapping[str, float] | None = None, title: str = "") -> Table:
    """Metric, value and chance, side by side, for the terminal."""
    from rich.table import Table

    chance = chance or {}
    rows = Table(title=title or None, title_justify="left")
    rows.add_column("metric")
    rows.add_column("value", justify="right", style="bold")
    rows.add_column("chance", justify="right", style="dim")
    for name, value in metrics.items():
        known = metric(name)
        if known.is_count:
            continue
        label = f"{known.direction}  {known.short}".strip()
        rows.add_row(label, known.show(value), known.show(chance[name]) if name in chance else "")
    return rows


def _clip_benchmark_names(metrics: Mapping[str, float]) -> dict[str, float]:
    renamed = {}
    for name, value in metrics.items():
        direction, _, k = name.partition("_R@")
        if k and direction in FOUND:
            renamed[f"{FOUND[direction]}_recall@{k}"] = value
    return renamed
