"""`equipoise benchmark --list`: what each set needs, where it must lie, and whether it is there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from equipoise.data.benchmark_sets import SetSpec
from equipoise.data.benchmark_sets.find import find_place
from equipoise.io.numbers import hand_over
from equipoise.io.tables import make_table, print_tables
from equipoise.workflows.benchmark.suite import read_suite


def list_sets(suite: str, root: Path | None) -> Mapping[str, SetSpec]:
    """Print and hand over the sets of a suite."""
    specs = read_suite(suite)
    rows: list[tuple[str, ...]] = []
    found: dict[str, dict[str, object]] = {}
    for name, spec in specs.items():
        place = find_place(name, spec, root) if root else None
        rows.append((name, spec.task, spec.metric, _there(place, root, spec), spec.needs or "as the suite's file says"))
        found[name] = {"task": spec.task, "metric": spec.metric, "needs": spec.needs, "folders": list(spec.folders)}
        found[name] |= {"place": str(place) if place else None, "hub": spec.hub}
    print_tables(make_table(("set", "task", "metric", "below --data", "needs"), rows, text_columns=5))
    print("\nNothing is fetched unless --download says so.")
    hand_over({"sets": found})
    return specs


def _there(place: Path | None, root: Path | None, spec: SetSpec) -> str:
    if root is None or place is None:
        return f"{spec.folders[0]}/{' (missing)' if root else ''}"
    return f"{place.relative_to(root)}/ (there)"
