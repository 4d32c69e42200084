"""Long work whose results are written to numbered files, so that it can be stopped and resumed.

    00000.safetensors    tensors of the first records
    00000.json           lists of strings and numbers that belong to them
    NAME.json            the settings that made all files of the folder

A file appears under its name only when it is whole, and an existing one is skipped. Results of other data or settings
never land in the same folder.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from equipoise.io.atomic import replacing, write_text
from equipoise.io.json_files import read_json_table
from equipoise.io.progress import Progress
from equipoise.types import UserError

Fill = Callable[[Path, Iterator[range]], None]  # writes a file from batches of records


@dataclass(frozen=True)
class NumberedFiles:
    """The files of `records` results, `per_file` in each."""

    folder: Path
    records: int
    per_file: int
    ending: str = ".safetensors"

    def paths(self) -> list[Path]:
        """The paths of all files, whether they exist or not."""
        return [self.path(number) for number in range(-(-self.records // self.per_file))]

    def path(self, number: int) -> Path:
        return self.folder / f"{number:05d}{self.ending}"

    def missing(self) -> list[int]:
        """The numbers of the files that do not exist yet."""
        return [number for number, path in enumerate(self.paths()) if not path.exists()]

    def records_of(self, number: int) -> range:
        """The records of a file."""
        start = number * self.per_file
        return range(start, min(start + self.per_file, self.records))

    def write(self, number: int, fill: Fill, batch_size: int, done: Callable[[int], None] | None = None) -> None:
        """Call `fill` for a file if it does not exist yet; `done` is told the record after each batch."""
        path, records = self.path(number), self.records_of(number)
        if not path.exists():
            fill(path, _batches(records, batch_size, done))

    def write_missing(self, fill: Fill, batch_size: int, doing: str) -> list[Path]:
        """Call `fill` for every file that does not exist yet; gives the paths of all."""
        with Progress(self.records, doing) as progress:
            for number in range(len(self.paths())):
                self.write(number, fill, batch_size, progress.update)
                progress.update(self.records_of(number).stop)
        return self.paths()


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


def claim(folder: Path, note: Mapping[str, Any], name: str, result: Path | None = None) -> None:
    """Raise UserError if `folder`, or the file `result` in it, holds results of other settings than `note`, which its
    file `name` keeps."""
    kind = "folder" if result is None else "file"
    file = folder / name
    if not file.exists():
        write_text(file, json.dumps(note, indent=2, ensure_ascii=False) + "\n")
        return
    stored = read_json_table(file, f"choose another {kind}")
    if changed := [key for key in {**stored, **note} if stored.get(key) != note.get(key)]:
        raise UserError(
            f"{result or folder} was made with other settings ({', '.join(changed)}; see {file}); choose another {kind}"
        )
