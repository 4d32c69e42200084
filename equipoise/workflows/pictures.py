"""Pictures by the names of their files, beside the kinds of data that `subject.py` knows: what `zeroshot` looks at.

a.jpg b.png        files
'photos/*.jpg'     a pattern
photos             a folder of pictures; one of class folders is data, as shards, tables and recipes are
"""

from __future__ import annotations

import glob
import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from equipoise.data.bad_records import Fault
from equipoise.data.files.image_folder import read_picture
from equipoise.data.files.image_source import Pictures, decodable
from equipoise.data.files.records import IMAGES
from equipoise.data.source import Pair, Source
from equipoise.settings.nearby import meant_path
from equipoise.types import UserError
from equipoise.workflows.subject import find_source


class PictureFiles:
    """Records that are nothing but a picture."""

    def __init__(self, files: Sequence[Path]):
        self.files = files
        self.faults: list[Fault] = []

    def __len__(self) -> int:
        return len(self.files)

    def key(self, index: int) -> str:
        return str(self.files[index])

    place = key

    def pair(self, index: int) -> Pair:
        return Pair(self.key(index), ())

    def image(self, index: int) -> bytes:
        return read_picture(self.files[index], self.place(index))

    def read(self, index: int) -> tuple[Pair, bytes]:
        return self.pair(index), self.image(index)

    def side_files(self, index: int) -> Mapping[str, bytes]:
        return {}


def find_pictures(names: Sequence[str], overrides: Sequence[str] = (), split: str = "test") -> list[Source]:
    """Sources of the pictures that words name, in their order; single files that follow each other are one source."""
    sources: list[Source] = []
    files: list[Path] = []
    for name in names:
        if (found := _files(name)) is not None:
            files += found
            continue
        if files:
            sources.append(_source(files))
            files = []
        sources.append(find_source(name, overrides, split)[0])
    return [*sources, _source(files)] if files else sources


def _files(name: str) -> list[Path] | None:
    """The pictures that a word names by their files; None where it names data of another kind."""
    path = Path(name)
    if path.is_dir():
        inside = sorted(path.iterdir())
        pictures = [file for file in inside if _is_picture(file) and file.is_file()]
        if not inside:
            raise UserError(f"{path}: there is nothing in this folder; check the path")
        return pictures or None
    if not _is_picture(path):
        return None
    found = [path] if path.exists() else sorted(map(Path, glob.glob(name)))
    if not found:
        raise UserError(f"{path}: there is no such picture{meant_path(path)}; check the path")
    return found


def _source(files: Sequence[Path]) -> Pictures:
    records = decodable(PictureFiles(list(files)))
    for fault in records.faults:
        warnings.warn(f"left out {fault}", stacklevel=2)
    if not len(records):
        raise UserError(f"none of the {len(files):,} pictures can be read, the first for this: {records.faults[0]}")
    return Pictures(records)


def _is_picture(path: Path) -> bool:
    return path.suffix.lower().removeprefix(".") in IMAGES and not os.path.basename(path).startswith(".")
