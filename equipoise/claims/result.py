"""What the runs of a claim gave, as one small file of JSON: numbers of every row and seed, settings, command, commit.

A verdict is never stored: it follows from the numbers by the claim's rule, each time it is asked for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from equipoise.claims.claim import SMALL, Claim
from equipoise.claims.rule import NO_VERDICT, NOT_RUN, NOT_TESTABLE, Verdict, decide
from equipoise.io.atomic import write_text
from equipoise.io.json_files import read_json_table
from equipoise.types import UserError

RESULTS = "results"  # the folder of results beside that of the cells
NEVER = "the scale small shows that everything runs; it is never a verdict"
TEXTS = ("claim", "scale", "fingerprint", "command", "date")


@dataclass(frozen=True)
class RowResult:
    chosen: tuple[str, ...]  # settings of the trial that was best on validation data
    trials: tuple[Mapping[str, Any], ...]  # all of them, with what they gave there
    values: Mapping[str, Sequence[float | None]]  # metric -> a value a seed, on test data
    failed: tuple[str, ...] = ()  # what happened in cells that gave nothing


@dataclass(frozen=True)
class Result:
    claim: str
    scale: str
    fingerprint: str  # of rows and rule when it was run
    rows: Mapping[str, RowResult]
    command: str = ""
    date: str = ""
    commits: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    cells: int = 0
    seconds: float = 0.0
    notes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def values(self) -> dict[str, Mapping[str, Sequence[float | None]]]:
        return {name: row.values for name, row in self.rows.items()}

    def write(self, path: Path) -> None:
        write_text(path, json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n")


def read_result(path: Path) -> Result:
    """Raises UserError for a file that holds no result."""
    table = read_json_table(path, "a result is what `equipoise claims run` writes")
    try:
        if not all(isinstance(table[name], str) for name in TEXTS):
            raise TypeError
        rows = {str(name): _row(row) for name, row in table.pop("rows").items()}
        for name in ("commits", "versions", "devices"):
            table[name] = tuple(map(str, table[name]))
        table["seconds"], table["cells"] = float(table["seconds"]), int(table["cells"])
        return Result(rows=rows, **table)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UserError(
            f"{path} is not the result of a claim; remove it, or write it anew by `equipoise claims run`"
        ) from None


def _row(row: Mapping[str, Any]) -> RowResult:
    values = {
        str(name): [None if value is None else float(value) for value in column]
        for name, column in row["values"].items()
    }
    return RowResult(tuple(map(str, row["chosen"])), tuple(row["trials"]), values, tuple(map(str, row["failed"])))


def verdict_of(claim: Claim, result: Result | None) -> Verdict:
    if claim.not_testable:
        return Verdict(NOT_TESTABLE, claim.not_testable)
    if result is None:
        return Verdict(NOT_RUN)
    if result.fingerprint != claim.fingerprint():
        return Verdict(NO_VERDICT, "its rows or its rule were changed after the run; run it again")
    verdict = decide(claim.parts, claim.preconditions, result.values)
    return Verdict(NO_VERDICT, NEVER, verdict.parts) if result.scale == SMALL else verdict


def results_in(folder: Path) -> dict[str, Result]:
    """All results of a folder, by claim; none where there is no such folder."""
    found = [read_result(path) for path in sorted(folder.glob("*.json"))] if folder.is_dir() else []
    return {result.claim: result for result in found}
