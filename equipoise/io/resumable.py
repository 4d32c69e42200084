"""Long work whose results are written to numbered files, so that it can be stopped and resumed.

    00000.safetensors    tensors of the first records
    00000.json           lists of strings and numbers that belong to them
    NAME.json            the settings that made all files of the folder

A file appears under its name only when it is whole, and an existing one is skipped. Results of other data or settings
never land in the same folder, which may be one of a store (`io/results_folder.py`).
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from equipoise.io.atomic import replacing, write_text
from equipoise.io.progress import Progress
from equipoise.io.results_folder import Folder, Place, folder_of
from equipoise.types import UserError

Fill = Callable[[Path, Iterator[range]], None]  # writes a file from batches of records
NUMBERED = re.compile(r"\d{5,}\.(safetensors|parquet|tar)")


@dataclass(frozen=True)
class NumberedFiles:
    """The files of `records` results, `per_file` in each."""

    place: Place
    records: int
    per_file: int
    ending: str = ".safetensors"

    def __len__(self) -> int:
        return (self.records + self.per_file - 1) // self.per_file

    @property
    def folder(self) -> Folder:
        return folder_of(self.place)

    def paths(self) -> list[Path]:
        """The paths of all files on a disk, whether they exist or not."""
        assert isinstance(self.place, Path), "files in a store have no paths"
        return [self.place / name for name in self.names()]

    def names(self) -> list[str]:
        """The names of all files, whether they exist or not."""
        return [self.name(number) for number in range(len(self))]

    def name(self, number: int) -> str:
        return f"{number:05d}{self.ending}"

    def missing(self) -> list[int]:
        """The numbers of the files that do not exist yet."""
        there = self.folder.names()
        return [number for number, name in enumerate(self.names()) if name not in there]

    def records_of(self, number: int) -> range:
        """The records of a file."""
        start = number * self.per_file
        return range(start, min(start + self.per_file, self.records))

    def write(self, number: int, fill: Fill, batch_size: int, done: Callable[[int], None] | None = None) -> None:
        """Call `fill` for a file if it does not exist yet; `done` is told the record after each batch."""
        name, folder = self.name(number), self.folder
        if not folder.has(name):
            with folder.adding(name) as path:
                fill(path, _batches(self.records_of(number), batch_size, done))

    def write_missing(self, fill: Fill, batch_size: int, doing: str) -> None:
        """Call `fill` for every file that does not exist yet."""
        missing = self.missing()
        done = self.records - sum(len(self.records_of(number)) for number in missing)
        with Progress(self.records, doing, done) as progress:
            for number in missing:
                records = self.records_of(number)
                self.write(number, fill, batch_size, _counted(progress, done - records.start))
                done += len(records)

    def words(self, hint: str) -> Iterator[dict[str, Any]]:
        """The lists beside each file; raises UserError, with the hint, for what cannot be read."""
        return self.folder.tables([name.replace(self.ending, ".json") for name in self.names()], hint)


def _counted(progress: Progress, shift: int) -> Callable[[int], None]:
    """Tells the progress of a file whose records are not counted from where they lie but by what is done."""
    return lambda stop: progress.update(stop + shift)


def _batches(records: range, size: int, done: Callable[[int], None] | None) -> Iterator[range]:
    for first in range(records.start, records.stop, size):
        batch = range(first, min(first + size, records.stop))
        yield batch
        if done:
            done(batch.stop)


def write_arrays(path: Path, tensors: Mapping[str, Tensor], words: Mapping[str, list[Any]]) -> None:
    """Write tensors to a file and lists to the .json beside it, which comes first: a file that exists is complete."""
    write_text(path.with_suffix(".json"), json.dumps(words, ensure_ascii=False))
    with replacing(path) as temporary:
        try:
            save_file(dict(tensors), temporary)
        except SafetensorError as error:  # how safetensors reports a full disk
            raise OSError(str(error)) from error
        shutil.copymode(path.with_suffix(".json"), temporary)  # safetensors keeps its files to their owner


def claim(place: Place, note: Mapping[str, Any], name: str, result: Path | None = None) -> None:
    """Raise UserError if a folder, or the file `result` in it, holds results of other settings than `note`, which its
    file `name` keeps."""
    kind = "folder" if result is None else "file"
    folder = folder_of(place)
    if not folder.has(name):
        if result is None and (foreign := next(filter(NUMBERED.fullmatch, sorted(folder.names())), None)):
            raise UserError(f"{place} holds {foreign} of other work, for there is no {name}; choose another folder")
        with folder.adding(name) as path:
            write_text(path, json.dumps(note, indent=2, ensure_ascii=False) + "\n")
        return
    (stored,) = folder.tables([name], f"choose another {kind}")
    if changed := [key for key in {**stored, **note} if stored.get(key) != note.get(key)]:
        raise UserError(
            f"{result or place} was made with other settings ({', '.join(changed)}; see {place / name}); "
            f"choose another {kind}"
        )
