"""The same run on all pairs, beside the one on what was kept: what cleaning bought."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from equipoise.config import Loaded
from equipoise.data.keep.settings import Clean
from equipoise.evaluation.metrics import percent
from equipoise.evaluation.results import metric
from equipoise.io.json_files import read_json_table
from equipoise.reports.report import HEADLINES

BASELINE = "all-pairs"  # a folder in that of the run
HEADER = ("", "all pairs", "what was kept")


def on_all_pairs(loaded: Loaded) -> Loaded | None:
    """The run without cleaning; None where no comparison was asked for."""
    if not (loaded.run.clean.enabled and loaded.run.clean.baseline):
        return None
    return Loaded(replace(loaded.run, clean=Clean()), {**loaded.table, "clean": vars(Clean())})


def on_all(folder: Path) -> dict[str, float]:
    """What was measured of the run on all pairs beside that in `folder`; nothing where there is none."""
    file = folder / BASELINE / "metrics.json"
    return read_json_table(file) if file.is_file() else {}


def bought(folder: Path, metrics: Mapping[str, float]) -> list[tuple[str, str, str]]:
    """The main numbers of the run on all pairs in `folder` and of the one on what was kept; none without the former."""
    before = on_all(folder)
    both: dict[str, str] = {}  # the first protocol that has a number says it
    for name in metrics:
        if name in before and name.rpartition("/")[2] in HEADLINES:
            both.setdefault(name.rpartition("/")[2], name)
    return [(metric(key).label, percent(before[name]), percent(metrics[name])) for key, name in both.items()]
