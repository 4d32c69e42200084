"""A cell: one row of a claim with one trial of its sweep and one seed. It is trained once and leaves a file of JSON.

Cells are named by their settings, not by their claim: the same run in several claims, CLIP on the same noisy pairs for
instance, is one cell. A file appears when it is whole, so the same command goes on where it was stopped.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equipoise.claims.claim import SMALL, OneStart, Row, Start
from equipoise.io.json_files import read_json_table

CELLS, STARTS = "cells", "starts"
START = "start"  # the kind of a cell that trains a model to start from


@dataclass(frozen=True)
class Cell:
    recipe: str
    settings: tuple[str, ...]  # each key once, sorted
    kind: str
    seed: int
    method: str = ""
    start: Cell | None = None

    @property
    def name(self) -> str:
        return f"{self.recipe}-{hashlib.sha256(repr(self).encode()).hexdigest()[:12]}"

    def file(self, folder: Path) -> Path:
        return folder / CELLS / f"{self.name}.json"

    def model_folder(self, folder: Path) -> Path:
        """Of a start."""
        return folder / STARTS / self.name

    def is_done(self, folder: Path) -> bool:
        return self.file(folder).is_file() and (self.kind != START or self.model_folder(folder).is_dir())

    def read(self, folder: Path) -> dict[str, Any] | None:
        """What its file holds; None where it is not done."""
        path = self.file(folder)
        return read_json_table(path, "remove it, and it is made anew") if path.is_file() else None


def cell_of(row: Row, trial: Sequence[str], seed: int, scale: str) -> Cell:
    small = row.small if scale == SMALL else ()
    seeds = [f"{key}={seed}" for key in row.seeded]
    start = start_of(row.start, seed, scale) if row.start else None
    return Cell(row.recipe, _once((*row.settings, *trial, *small, *seeds)), row.kind, seed, row.method, start)


def start_of(start: Start, seed: int, scale: str) -> Cell:
    small = start.small if scale == SMALL else ()
    if isinstance(start, OneStart):
        return Cell(start.recipe, _once((*start.settings, *small)), START, 0)
    settings = (*start.settings, *small, f"seed={seed}", f"data.seed={seed}")
    return Cell(start.recipe, _once(settings), START, seed)


def _once(settings: Sequence[str]) -> tuple[str, ...]:
    """Each key with the last of its values, sorted: what `--set` makes of them in this order."""
    last = {text.partition("=")[0]: text for text in settings}
    return tuple(last[key] for key in sorted(last))


def as_text(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"
