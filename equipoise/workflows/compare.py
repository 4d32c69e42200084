"""`equipoise compare`: runs side by side, as tables, as a page and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from equipoise.analysis.run_comparison import RunComparison, StoredRun
from equipoise.config import load_stored
from equipoise.evaluation.results import metric
from equipoise.io.json_files import read_json_table
from equipoise.io.numbers import hand_over
from equipoise.io.tables import make_table, print_tables
from equipoise.models.folder import CONFIG, METRICS
from equipoise.reports.compare_page import SeedTable, Table, write_compare
from equipoise.settings.nearby import meant_path
from equipoise.training.logging.metrics import METRICS_FILE, read_metrics
from equipoise.types import UserError

MOST = 8  # runs: as many as a table of numbers and a chart of lines can show


def compare_runs(folders: Sequence[Path], out: Path) -> RunComparison:
    """Print what differs and what was measured, hand it over, and write the page."""
    if not 2 <= len(folders) <= MOST:
        raise UserError(f"{len(folders)} run{'s' * (len(folders) != 1)} cannot be compared; name 2 to {MOST}")
    if twice := next((folder for folder, count in Counter(map(Path.resolve, folders)).items() if count > 1), None):
        raise UserError(f"{twice} is named twice; name different runs")
    found = RunComparison(tuple(map(read_run, folders)))
    labels = _labels(folders)
    settings: Table = [(key, [(_shown(value), False) for value in values]) for key, values in found.settings.items()]
    numbers = _numbers(found)
    seeds = _over_seeds(found, labels)
    _print(labels, settings, numbers)
    for title, (heads, rows) in seeds.items():
        texts = [(name, *(text for text, _ in cells)) for name, cells in rows]
        print_tables(make_table(("", *heads), texts, title=title))
    if found.warning:
        print(found.warning)
    for label, run in zip(labels, found.runs, strict=True):
        if not run.metrics:
            print(
                f"{label} has no results: it is not finished; `equipoise train --resume {run.folder}` goes on with it"
            )
    records = {label: run.records for label, run in zip(labels, found.runs, strict=True)}
    path = write_compare(out, records, settings, numbers, found.warning, seeds)
    hand_over({**found.numbers(), "page": str(path)})
    print(f"\nThe page with the curves is {path}")
    return found


def read_run(folder: Path) -> StoredRun:
    """The settings, results and records of a run, finished or not."""
    if not (folder / CONFIG).is_file():
        hint = "" if folder.is_dir() else meant_path(folder) or " (there is no such folder)"
        raise UserError(f"{folder} holds no run{hint}: there is no {CONFIG} in it; give the folder of a run")
    metrics = read_json_table(folder / METRICS) if (folder / METRICS).is_file() else {}
    numbers = {name: float(value) for name, value in metrics.items() if isinstance(value, int | float)}
    return StoredRun(
        str(folder), load_stored(folder / CONFIG).table, numbers, tuple(read_metrics(folder / METRICS_FILE))
    )


def _labels(folders: Sequence[Path]) -> list[str]:
    """The folders' names, or their paths where names are the same."""
    names = Counter(folder.resolve().name for folder in folders)
    return [name if names[name := folder.resolve().name] == 1 else str(folder) for folder in folders]


def _numbers(found: RunComparison) -> dict[str, Table]:
    tables: dict[str, list[Any]] = {}
    for row in found.rows:
        cells = [(row.shown(place), place in row.best) for place in range(len(found.runs))]
        tables.setdefault(row.name.partition("/")[0].replace("_", " "), []).append((row.metric.label, cells))
    return dict(tables)


def _over_seeds(found: RunComparison, labels: Sequence[str]) -> dict[str, SeedTable]:
    """Title, heads and rows of a table for each evaluation, of runs that differ in their seed alone."""
    heads = [", ".join(labels[place] for place in group) for group in found.groups]
    tables: dict[str, SeedTable] = {}
    for row in found.over_seeds:
        cells = [(row.shown(number), False) for number in range(len(heads))]
        title = f"{row.name.partition('/')[0].replace('_', ' ')}, mean ± sd over seeds"
        tables.setdefault(title, (heads, []))[1].append((metric(row.name.partition("/")[2]).label, cells))
    return tables


def _print(labels: Sequence[str], settings: Table, numbers: dict[str, Table]) -> None:
    tables = {"settings that differ": settings, **numbers} if settings else numbers
    for title, rows in tables.items():
        texts = [(name, *(f"{text} *" if best else text for text, best in cells)) for name, cells in rows]
        print_tables(make_table(("", *labels), texts, title=title))
    if not settings:
        print("The settings are the same.")


def _shown(value: Any) -> str:
    return "" if value is None else str(value)
