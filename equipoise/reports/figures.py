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
}


def write_figures(folder: Path, findings: Mapping[str, EvalResult], facts: Mapping[str, str]) -> None:
    """Write both files of a run that has been evaluated."""
    figures = {**facts, "figures": list(_rows(findings))}
    write_text(folder / FIGURES, json.dumps(figures, indent=2, ensure_ascii=False) + "\n")
    write_text(folder / TABLE, markdown(figures))


def markdown(figures: Mapping[str, Any]) -> str:
    """The table of figures.json in Markdown."""
    lines = ["| on held-out data | model | chance |", "|---|---:|---:|"]
    lines += [f"| {row['what']} | {percent(row['model'])} | {percent(row['chance'])} |" for row in figures["figures"]]
    return "\n".join(lines) + "\n"


def _rows(findings: Mapping[str, EvalResult]) -> Iterator[dict[str, Any]]:
    for (evaluation, metric), words in QUOTED.items():
        found = findings.get(evaluation)
        if found and metric in found.metrics and metric in found.chance:
            what = words.format(len(found.classes))
            yield {"what": what, "metric": metric, "model": found.metrics[metric], "chance": found.chance[metric]}
