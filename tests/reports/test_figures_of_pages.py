"""Figures that pages quote are those that a run wrote."""

from __future__ import annotations

import json
from pathlib import Path

import demo_table

from equipoise.reports.figures import FIGURES, TABLE, markdown


def test_readme_quotes_the_stored_demo() -> None:
    text = demo_table.README.read_text(encoding="utf-8")
    assert demo_table.BEGIN in text
    assert text == demo_table.with_figures(text)


def test_a_run_writes_its_figures_from_its_results(finished_run: Path) -> None:
    figures = json.loads((finished_run / FIGURES).read_text(encoding="utf-8"))
    results = json.loads((finished_run / "results" / "retrieval.json").read_text(encoding="utf-8"))
    first = figures["figures"][0]
    assert first["model"] == results["metrics"][first["metric"]]
    assert first["chance"] == results["equipoise"]["chance"][first["metric"]]
    assert (finished_run / TABLE).read_text(encoding="utf-8") == markdown(figures)
    assert {"command", "seed", "training", "model"} <= set(figures)


def test_a_run_on_all_pairs_has_a_column_of_its_own() -> None:
    row = {"what": "R@1", "model": 0.19, "chance": 0.001}
    assert markdown({"figures": [row]}).splitlines()[2] == "| R@1 | 19.0% | 0.10% |"
    both = markdown({"figures": [row | {"all_pairs": 0.052}, row]}).splitlines()
    assert both[0] == "| on held-out data | trained on all pairs | **on what was kept** | chance |"
    assert both[2:] == ["| R@1 | 5.2% | 19.0% | 0.10% |", "| R@1 |  | 19.0% | 0.10% |"]
