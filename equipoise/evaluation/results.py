"""Named numbers out: as JSON in CLIP_benchmark's shape, and as a table for people.

One file holds one object with the keys `dataset, model, pretrained, task, metrics, language`, so that
`clip_benchmark build *.json` and the notebooks around it read ours beside their own. Recalls appear under our names
(open_clip's) and under CLIP_benchmark's, which are named after what is *found*: `text_retrieval_recall@k` is our
`image_to_text_R@k`. What only we know (chance, seed, versions, ...) goes under `equipoise`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equipoise.evaluation import EVALUATIONS, knn_probe, linear_probe, logit_scale
from equipoise.evaluation.evaluator import TASKS
from equipoise.evaluation.metrics import Metric
from equipoise.io.atomic import write_text
from equipoise.io.tables import make_table

if TYPE_CHECKING:
    from rich.table import Table

FOUND = {"image_to_text": "text_retrieval", "text_to_image": "image_retrieval"}


def metric(name: str) -> Metric:
    """The metric of that name, whichever evaluation declares it; an unknown one is shown as a share, as it is."""
    declared = (evaluation.describe(name) for evaluation in EVALUATIONS.values())
    others = {**linear_probe.METRICS, **knn_probe.METRICS, **logit_scale.METRICS}
    return next(filter(None, declared), None) or others.get(name) or Metric(name)


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
    """Metric, value and chance, side by side, for the terminal; counts are left out."""
    known = {name: metric(name) for name in metrics}
    guesses = {name: known[name].show(value) for name, value in (chance or {}).items() if name in known}
    rows = [
        (known[name].label, known[name].show(value), guesses.get(name, ""))
        for name, value in metrics.items()
        if not known[name].is_count
    ]
    return make_table(("metric", "value", "chance"), rows, title=title, styles={"value": "bold", "chance": "dim"})


def _clip_benchmark_names(metrics: Mapping[str, float]) -> dict[str, float]:
    renamed = {}
    for name, value in metrics.items():
        direction, _, k = name.partition("_R@")
        if k and direction in FOUND:
            renamed[f"{FOUND[direction]}_recall@{k}"] = value
    return renamed
