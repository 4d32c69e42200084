"""A job of a few numbered files, each of which takes a moment and is noted when it is begun."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from equipoise.data.bad_records import BadRecordCount, Fault
from equipoise.data.part_writer import PartWriter
from equipoise.io.resumable import NumberedFiles, write_arrays
from equipoise.workflows.audit.stopwatch import COST

BEGUN = "begun.txt"


@dataclass(frozen=True)
class SlowJob:
    folder: Path
    notes: Path
    records: int = 24
    seconds: float = 0.3  # a file
    bad: int = 0  # bad records of each file
    max_bad: float = 0.5
    asked: int = 0  # bytes of memory that each file takes

    def __call__(self) -> PartWriter:
        count = BadRecordCount(self.max_bad, self.records)

        def fill(path: Path, batches: Iterator[range]) -> None:
            with (self.notes / BEGUN).open("a") as notes:
                notes.write(f"{path.stem} {os.getpid()}\n")
            numbers = [number for batch in batches for number in batch]
            torch.empty(self.asked, dtype=torch.uint8)
            time.sleep(self.seconds)
            count.add(len(numbers), [Fault(path.name, "is bad")] * self.bad)
            write_arrays(path, {"numbers": torch.tensor(numbers)}, {"numbers": numbers})

        return PartWriter(NumberedFiles(self.folder, self.records, 2), fill, 1, count)

    def begun(self) -> list[tuple[int, int]]:
        """The number of every file that was begun, and the process that did."""
        path = self.notes / BEGUN
        lines = path.read_text().split("\n")[:-1] if path.exists() else []
        return [(int(number), int(pid)) for number, pid in (line.split() for line in lines)]


def contents(folder: Path) -> dict[str, bytes]:
    """All files of a folder, hidden ones too, but what says how long it took."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != COST)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}
