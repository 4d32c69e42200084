"""How long work in a folder took, by kind, over all processes that had a part in it: `cost.json`.

A file of its own, for what else a command writes holds the same bytes whenever it is made. It is written at every turn
from one kind of work to another, so what `kill -9` ends is counted up to the last turn.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from equipoise.io.atomic import write_text
from equipoise.io.json_files import read_json_table
from equipoise.types import UserError

COST = "cost.json"
READING, TRAINING, JUDGING = KINDS = ("reading", "training", "judging")  # for copies; judges, with looks; all else
FINISHED = "finished"

T = TypeVar("T")


def seconds_spent(folder: Path) -> dict[str, float]:
    """Seconds by kind; empty where nothing was noted."""
    return {kind: float(spent) for kind, spent in _read(folder).items() if kind != FINISHED}


class Stopwatch:
    """Counts the seconds of one kind of work at a time, on top of those that a folder knows of already."""

    def __init__(self, folder: Path | None, anew: bool = False):
        """Nothing is written where there is no folder; `anew` forgets work that had come to its end."""
        self.folder = folder
        known = _read(folder) if folder else {}
        if anew and known.get(FINISHED):
            known = {}
        self.seconds = {kind: float(known.get(kind, 0.0)) for kind in KINDS}
        self._finished = False
        self._kind, self._since = "", 0.0

    @contextmanager
    def on(self, kind: str) -> Iterator[None]:
        """Count what is inside as that kind, and as nothing else."""
        outer = self._kind
        self._turn(kind)
        try:
            yield
        finally:
            self._turn(outer)

    def each(self, kind: str, values: Iterator[T]) -> Iterator[T]:
        """The values, whose making is counted as that kind."""
        while True:
            with self.on(kind):
                found = next(values, None)
            if found is None:
                return
            yield found

    def finish(self) -> None:
        """Note that the work has come to its end."""
        self._finished = True
        self._write()

    def _turn(self, kind: str) -> None:
        now = time.monotonic()
        if self._kind:
            self.seconds[self._kind] += now - self._since
            self._write()
        self._kind, self._since = kind, now

    def _write(self) -> None:
        if self.folder:
            rounded = {kind: round(spent, 3) for kind, spent in self.seconds.items()}
            write_text(self.folder / COST, json.dumps({**rounded, FINISHED: self._finished}) + "\n")


def _read(folder: Path) -> dict[str, float]:
    path, hint = folder / COST, "remove it to count from 0"
    found = read_json_table(path, hint) if path.is_file() else {}
    if not all(isinstance(spent, int | float) and spent >= 0 for spent in found.values()):
        raise UserError(f"cannot read {path}: it must hold seconds by kind; {hint}")
    return found
