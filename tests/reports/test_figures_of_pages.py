"""Figures that pages quote are those that a run wrote."""

from __future__ import annotations

import json
import re
from pathlib import Path

import demo_table

from equipoise.evaluation.metrics import percent
from equipoise.reports.figures import FIGURES, TABLE, markdown


def test_readme_quotes_the_stored_demo() -> None:
    text = demo_table.README.read_text(encoding="utf-8")
    assert demo_table.BEGIN in text
    assert text == demo_table.with_figures(text)


def test_results_quote_the_stored_demo() -> None:
    stored = json.loads(demo_table.STORED.read_text(encoding="utf-8"))["figures"]
    page = (demo_table.ROOT / "docs" / "results.md").read_text(encoding="utf-8").split("\n## ")[1]
    rows = {" ".join(cells[0].split()): cells[-1].strip() for cells in _cells(page)}
    names = {
        "text_to_image_R@1": "text → image R@1",
        "image_to_text_R@1": "image → text R@1",
        "text_to_image_true_R@1": "text → image true R@1",
        "text_to_image_mAP@R": "text → image mAP@R",
        "acc1": "zero-shot shape",
    }
    quoted = [figure for figure in stored if figure["metric"] in names]
    assert len(quoted) == len(names)
    for figure in quoted:
        assert rows[names[figure["metric"]]] == percent(figure["model"])


def _cells(page: str) -> list[list[str]]:
    return [line.strip("|").split("|") for line in page.splitlines() if re.match(r"\| \w", line)]


def test_a_run_writes_its_figures_from_its_results(finished_run: Path) -> None:
    figures = json.loads((finished_run / FIGURES).read_text(encoding="utf-8"))
    results = json.loads((finished_run / "results" / "retrieval.json").read_text(encoding="utf-8"))
    first = figures["figures"][0]
    assert first["model"] == results["metrics"][first["metric"]]
    assert first["chance"] == results["equipoise"]["chance"][first["metric"]]
    assert (finished_run / TABLE).read_text(encoding="utf-8") == markdown(figures)
    assert {"command", "seed", "training", "model"} <= set(figures)
