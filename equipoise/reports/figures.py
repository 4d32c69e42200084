"""The figures of a run that a page may quote: figures.json for programs, table.md to paste.

README's are those of a demo, copied to docs/demo-figures.json; a test compares the two.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from equipoise.evaluation.evaluator import EvalResult
from equipoise.evaluation.metrics import percent
from equipoise.io.atomic import write_text

FIGURES, TABLE = "figures.json", "table.md"
QUOTED = {  # evaluation and metric -> words
    ("retrieval", "text_to_image_R@1"): "R@1, caption → picture",
    ("retrieval", "text_to_image_R@10"): "R@10, caption → picture",
    ("retrieval", "image_to_text_R@1"): "R@1, picture → caption",
    ("retrieval", "text_to_image_mAP@R"): "mAP@R, caption → picture, against all true matches",
    ("retrieval", "text_to_image_true_R@1"): "first result truly matches, caption → picture",
    ("zero_shot", "acc1"): "zero-shot accuracy over {} classes",
    ("subsets", "mean_accuracy"): "accuracy, mean over all subsets of modalities",
    ("subsets", "mean_zeroed_accuracy"): "the same, zeros for the modalities that are missing",
    ("modal_retrieval", "modal_mean_recall"): "mean of R@1, R@5 and R@10 over all pairs of modalities",
}


def write_figures(
    folder: Path, findings: Mapping[str, EvalResult], facts: Mapping[str, str], all_pairs: Mapping[str, float]
) -> None:
    """Write both files of a run that has been evaluated; beside its numbers those of a run on all pairs, if any."""
    rows = [
        row | ({"all_pairs": all_pairs[name]} if (name := f"{row['evaluation']}/{row['metric']}") in all_pairs else {})
        for row in _rows(findings)
    ]
    figures = {**facts, "figures": rows}
    write_text(folder / FIGURES, json.dumps(figures, indent=2, ensure_ascii=False) + "\n")
    write_text(folder / TABLE, markdown(figures))


def markdown(figures: Mapping[str, Any]) -> str:
    """The table of figures.json in Markdown."""
    columns = {"model": "model", "chance": "chance"}
    if any("all_pairs" in row for row in figures["figures"]):
        columns = {"all_pairs": "trained on all pairs", "model": "**on what was kept**", "chance": "chance"}
    lines = [f"| on held-out data | {' | '.join(columns.values())} |", "|---|" + "---:|" * len(columns)]
    for row in figures["figures"]:
        cells = [percent(row[name]) if name in row else "" for name in columns]
        lines.append(f"| {row['what']} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _rows(findings: Mapping[str, EvalResult]) -> Iterator[dict[str, Any]]:
    for (evaluation, metric), words in QUOTED.items():
        found = findings.get(evaluation)
        if found and metric in found.metrics and metric in found.chance:
            what = words.format(len(found.classes))
            numbers = {"model": found.metrics[metric], "chance": found.chance[metric]}
            yield {"what": what, "evaluation": evaluation, "metric": metric, **numbers}
