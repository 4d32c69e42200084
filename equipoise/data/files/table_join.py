"""Rows of one picture as one record: many tables have a row for every caption, the picture named again in each.

    path     rows of the same file, however its path is written
    bytes    rows of files with the same content too: files of equal size are read and compared
    none     every row is a record

A record stands where its picture comes first, and its captions in the order of the rows. Rows with different labels,
or of different splits, stay apart. Pictures that a Parquet file holds are joined by their bytes in both ways: their
paths are often file names without folders, which pictures of different folders share.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from equipoise.data.files.parquet_pictures import StoredPicture
from equipoise.data.files.records import LARGEST

JOINS = ("path", "bytes", "none")


@dataclass(frozen=True, slots=True)
class TableRow:
    place: str
    path: str
    folder: Path
    captions: tuple[str, ...]
    label: str | None
    stored: StoredPicture | None = None  # where the table holds the picture itself
    split: str = ""  # train, validation or test, where a column says so

    @property
    def file(self) -> str:
        """The path of the picture, written in one way."""
        return os.path.normpath(os.path.join(self.folder, self.path))


def joined(rows: list[TableRow], join: str) -> list[TableRow]:
    if join == "none":
        return rows
    name = _by_bytes(rows) if join == "bytes" else _by_path
    captions: dict[Hashable, list[str]] = {}
    first: dict[Hashable, TableRow] = {}
    for row in rows:
        picture = (name(row), row.label, row.split)
        first.setdefault(picture, row)
        captions.setdefault(picture, []).extend(row.captions)
    if len(first) == len(rows):
        return rows
    return [replace(row, captions=tuple(captions[picture])) for picture, row in first.items()]


def _by_path(row: TableRow) -> Hashable:
    return row.stored.digest if row.stored else row.file


def _by_bytes(rows: Sequence[TableRow]) -> Callable[[TableRow], Hashable]:
    """A name for each picture that is equal where files are; a file that cannot be read has its own."""
    sizes = {file: _size(file) for file in {row.file for row in rows if not row.stored}}
    often = Counter(sizes.values())
    names: dict[str, Hashable] = {
        file: _digest(file) if size is not None and often[size] > 1 else file for file, size in sizes.items()
    }
    return lambda row: row.stored.digest if row.stored else names[row.file]


def _size(file: str) -> int | None:
    try:
        found = os.stat(file).st_size if os.path.isfile(file) else None
    except (OSError, ValueError):
        return None
    return found if found is not None and found <= LARGEST else None


def _digest(file: str) -> Hashable:
    try:
        with open(file, "rb") as stream:
            return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).digest()
    except OSError:
        return file
