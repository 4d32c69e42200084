"""Long work whose results lie in numbered files, so that it can be stopped and gone on with.

    00000.safetensors    tensors of the first records
    00000.json           the words that belong to them
    NAME.json            what made all files of the folder

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
from equipoise.io.progress import Progress
from equipoise.types import UserError

Fill = Callable[[Path, Iterator[range]], None]  # makes a file of batches of records


@dataclass(frozen=True)
class NumberedFiles:
    folder: Path
    records: int
    per_file: int

    def write_missing(self, fill: Fill, batch_size: int, doing: str) -> list[Path]:
        """`fill` is called for every file that is not there yet; gives the paths of all."""
        paths = []
        with Progress(self.records, doing) as progress:
            for number, start in enumerate(range(0, self.records, self.per_file)):
                stop = min(start + self.per_file, self.records)
                paths.append(self.folder / f"{number:05d}.safetensors")
                if not paths[-1].exists():
                    fill(paths[-1], _batches(range(start, stop), batch_size, progress))
                progress.update(stop)
        return paths


def _batches(records: range, size: int, progress: Progress) -> Iterator[range]:
    for first in range(records.start, records.stop, size):
        batch = range(first, min(first + size, records.stop))
        yield batch
        progress.update(batch.stop)


def write_arrays(path: Path, tensors: Mapping[str, Tensor], words: Mapping[str, list[Any]]) -> None:
    """Tensors to a file and lists of words to the .json beside it, which comes first: a file that is there is whole."""
    write_text(path.with_suffix(".json"), json.dumps(words, ensure_ascii=False))
    with replacing(path) as temporary:
        try:
            save_file(dict(tensors), temporary)
        except SafetensorError as error:  # how safetensors reports a full disk
            raise OSError(str(error)) from error
        shutil.copymode(path.with_suffix(".json"), temporary)  # safetensors keeps its files to their owner


def claim(folder: Path, note: Mapping[str, Any], name: str) -> None:
    """Only results of one making in one folder; `name` is the file that says which."""
    file = folder / name
    if not file.exists():
        write_text(file, json.dumps(note, indent=2, ensure_ascii=False) + "\n")
        return
    try:
        there = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"{file} cannot be read; choose another folder") from error
    if others := [name for name in {**there, **note} if there.get(name) != note.get(name)]:
        raise UserError(
            f"{folder} was made with other settings ({', '.join(others)}; see {file}); choose another folder"
        )
