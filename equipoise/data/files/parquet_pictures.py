"""Pictures within a Parquet file: a column of their bytes, or of {bytes, path} as Hugging Face's datasets are written.

All of a column is read once, in order, to know which rows hold the same picture; later a picture is read with its row
group, since Parquet has no smaller part that can be read alone. Each thread keeps the row groups it read last, up to
`KEPT` bytes: files larger than that are slow in random order, and `equipoise data prepare` makes shards of them.
"""

from __future__ import annotations

import hashlib
import threading
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any

from equipoise.data.bad_records import BadRecord
from equipoise.data.files.records import LARGEST
from equipoise.types import UserError

BYTES, PATH = "bytes", "path"  # the fields of Hugging Face's form
AT_ONCE = 64  # rows whose pictures are in memory together while a column is looked through
KEPT = 1 << 28  # bytes of row groups


@dataclass(frozen=True, slots=True)
class StoredPicture:
    """A picture in a row of a file; one without bytes is named by its path alone."""

    file: Path
    column: str
    row: int  # from 0
    path: str
    digest: bytes  # of its bytes; empty where there are none
    state: tuple[int, int]  # the file's size and time of change when it was looked through

    @property
    def key(self) -> str:
        return "/".join(filter(None, (self.file.name, str(self.row + 1), self.path.rpartition("/")[2])))

    def read(self, place: str) -> bytes:
        """Its bytes. Raises BadRecord, and UserError where the file is no longer the same."""
        if _state(self.file) != self.state:
            raise UserError(f"{self.file}: this file has changed since it was first read; start again")
        groups = _cached_groups()
        first, column = groups.holding(self)
        data = _bytes_of(column[self.row - first].as_py())
        if len(data) > LARGEST:
            raise BadRecord(place, f"the image has {len(data):,} bytes, and {LARGEST:,} are the most that are read")
        return data


def holds_pictures(kind: Any) -> bool:
    """Whether a column of this type holds the bytes of pictures."""
    import pyarrow

    if pyarrow.types.is_struct(kind):
        place = kind.get_field_index(BYTES)
        return place >= 0 and holds_pictures(kind.field(place).type)
    return pyarrow.types.is_binary(kind) or pyarrow.types.is_large_binary(kind)


def stored_pictures(path: Path, column: str) -> tuple[StoredPicture, ...]:
    """The picture of each row; looked through once, as long as the file stays the same."""
    return _look_through(path, column, _state(path))


@lru_cache(maxsize=256)
def _look_through(path: Path, column: str, state: tuple[int, int]) -> tuple[StoredPicture, ...]:
    found: list[StoredPicture] = []
    with opened_parquet(path) as file:
        for batch in file.iter_batches(batch_size=AT_ONCE, columns=[column], use_threads=False):
            for cell in batch.column(column):
                value = cell.as_py()
                data = _bytes_of(value)
                name = value.get(PATH) if isinstance(value, dict) else None
                digest = hashlib.blake2b(data, digest_size=16).digest() if data else b""
                found.append(StoredPicture(path, column, len(found), str(name or ""), digest, state))
    return tuple(found)


def _bytes_of(value: Any) -> bytes:
    data = value.get(BYTES) if isinstance(value, dict) else value
    return data if isinstance(data, bytes) else b""


def _state(path: Path) -> tuple[int, int]:
    try:
        found = path.stat()
    except OSError as error:
        raise UserError(f"{path}: this file cannot be read ({error.strerror}); check it") from None
    return found.st_size, found.st_mtime_ns


class _Groups:
    """The row groups that a thread read last, each with the number of its first row."""

    def __init__(self) -> None:
        self._columns: dict[tuple[Path, str, tuple[int, int], int], Any] = {}
        self._starts: dict[tuple[Path, tuple[int, int]], list[int]] = {}

    def holding(self, picture: StoredPicture) -> tuple[int, Any]:
        starts = self._starts_of(picture)
        group = bisect_right(starts, picture.row) - 1
        key = (picture.file, picture.column, picture.state, group)
        column = self._columns.pop(key, None)
        if column is None:
            with opened_parquet(picture.file) as file:
                column = file.read_row_group(group, columns=[picture.column], use_threads=False).column(picture.column)
        self._columns[key] = column  # the newest is the last
        while len(self._columns) > 1 and sum(kept.nbytes for kept in self._columns.values()) > KEPT:
            del self._columns[next(iter(self._columns))]
        return starts[group], column

    def _starts_of(self, picture: StoredPicture) -> list[int]:
        key = (picture.file, picture.state)
        if key not in self._starts:
            with opened_parquet(picture.file) as file:
                sizes = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
            self._starts[key] = [0, *accumulate(sizes)][: len(sizes)]
        return self._starts[key]


_local = threading.local()  # so that neither threads nor forked processes need a lock


def _cached_groups() -> _Groups:
    if not hasattr(_local, "groups"):
        _local.groups = _Groups()
    groups: _Groups = _local.groups
    return groups


@contextmanager
def opened_parquet(path: Path) -> Iterator[Any]:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise UserError("reading Parquet needs pyarrow; install it with: pip install 'equipoise[parquet]'") from error
    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except (UserError, GeneratorExit):
        raise
    except Exception as error:  # damaged files make pyarrow raise anything
        raise UserError(
            f"{path}: this cannot be read as Parquet ({' '.join(str(error).split())[:200]}); check the file, or fetch "
            "it again"
        ) from None
