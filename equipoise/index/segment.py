"""A segment: rows of an index that were written together, and never change.

segment.json    how many rows, how wide, stored as what; how many are of images and of texts
rows.bin        the rows' numbers, int64, ascending
points.bin      the points (`points.py`); with scales.bin where they are int8
records.bin     what is known of each row, as JSON; records.spans says where each is (`blobs.py`)
thumbs.bin      small JPEGs; empty where there is none
fields.json     columns for filters (`columns.py`)
search.faiss    what faiss made of the points, where the kind has it and there are many
digests.json    the SHA-256 of these files (`io/digests.py`)
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from equipoise.index.blobs import Blobs, BlobWriter
from equipoise.index.columns import Columns, ColumnWriter, fields_of
from equipoise.index.index import Record
from equipoise.index.points import AGAIN, DTYPES, Points, PointWriter, mapped
from equipoise.index.record_json import dumped, record_of, record_table
from equipoise.io.digests import DIGESTS, file_digest, read_digests, require_intact, write_digests
from equipoise.io.json_files import read_json_table
from equipoise.types import UserError

NOTE, ROWS, RECORDS, THUMBS, SEARCH = "segment.json", "rows.bin", "records", "thumbs", "search.faiss"
ROW = np.dtype("<i8")


class SegmentWriter:
    """Writes the rows of a segment, batch by batch, into a folder that exists."""

    def __init__(self, folder: Path, dtype: str):
        self.folder, self.width, self.of = folder, 0, Counter[str]()
        self.points, self.columns = PointWriter(folder, dtype), ColumnWriter()
        self.records, self.thumbs = BlobWriter(folder, RECORDS), BlobWriter(folder, THUMBS, once=True)
        self.rows: list[np.ndarray] = []

    def add(
        self, rows: Sequence[int], points: Tensor, records: Sequence[Record], thumbs: Sequence[bytes | None]
    ) -> None:
        self.width = points.shape[1]
        self.rows.append(np.array(rows, ROW))
        self.points.add(points)
        self._describe(records, thumbs)

    def copy(self, segment: Segment, places: np.ndarray) -> None:
        """Add rows of another segment, with their numbers and points as they are stored."""
        self.width = segment.points.width
        self.rows.append(np.array(segment.rows[places], ROW))
        self.points.copy(segment.points, places)
        self._describe([segment.record(int(n)) for n in places], [segment.thumbnail(int(n)) for n in places])

    def _describe(self, records: Sequence[Record], thumbs: Sequence[bytes | None]) -> None:
        for record, thumb in zip(records, thumbs, strict=True):
            self.records.add(dumped(record_table(record)).encode())
            self.thumbs.add(thumb or b"")
            self.columns.add(fields_of(record))
            self.of[record.of] += 1

    def finish(self) -> None:
        """Write what is known only now; the digests are left to `seal`."""
        for part in (self.points, self.records, self.thumbs):
            part.close()
        (np.concatenate(self.rows) if self.rows else np.empty(0, ROW)).tofile(self.folder / ROWS)
        self.columns.write(self.folder)
        note = {"rows": self.points.count, "width": self.width, "dtype": self.points.dtype, "of": dict(self.of)}
        (self.folder / NOTE).write_text(json.dumps(note) + "\n", encoding="utf-8")


def seal(folder: Path) -> str:
    """Write the digests of all files of a segment; gives the SHA-256 of that file."""
    write_digests(folder, sorted(path.name for path in folder.iterdir()), None)
    return file_digest(folder / DIGESTS)


class Segment:
    """A segment, open for reading."""

    def __init__(self, folder: Path, width: int):
        self.folder = folder
        note = read_json_table(folder / NOTE, AGAIN)
        self.count, self.of = _checked(note, folder / NOTE, width)
        self.rows = mapped(folder / ROWS, ROW, (self.count,))
        self.points = Points(folder, self.count, width, note["dtype"])
        self.columns = Columns(folder, self.count)
        self._records, self._thumbs = Blobs(folder, RECORDS, self.count), Blobs(folder, THUMBS, self.count)

    def __len__(self) -> int:
        return self.count

    @property
    def search_file(self) -> Path | None:
        path = self.folder / SEARCH
        return path if path.is_file() else None

    def place(self, row: int) -> int | None:
        """Where a row is here, if it is."""
        place = int(np.searchsorted(self.rows, row))
        return place if place < self.count and int(self.rows[place]) == row else None

    def row_numbers(self, places: slice | np.ndarray) -> Tensor:
        return torch.from_numpy(np.array(self.rows[places], dtype=np.int64))

    def record(self, place: int) -> Record:
        return _read(self._records[place], self.folder)

    def thumbnail(self, place: int) -> bytes | None:
        return self._thumbs[place] or None


def open_segment(folder: Path, sha256: str, width: int) -> Segment:
    """A segment whose files are those that were written; raises UserError otherwise."""
    digests = folder / DIGESTS
    if not digests.is_file():
        raise UserError(f"{digests} is missing; {AGAIN}")
    if file_digest(digests) != sha256:
        raise UserError(f"{digests} is not the one that index.json names; {AGAIN}")
    stored = read_digests(folder)
    there = {path.name for path in folder.iterdir()} - {DIGESTS}
    require_intact(folder, sorted(there | set(stored.sha256 if stored else ())))
    return Segment(folder, width)


def _checked(note: Mapping[str, Any], path: Path, width: int) -> tuple[int, dict[str, int]]:
    count, of = note.get("rows"), note.get("of")
    if type(count) is not int or not 0 <= count < 2**40 or note.get("dtype") not in DTYPES or not isinstance(of, dict):
        raise UserError(f"{path} does not say how many rows there are and of what; {AGAIN}")
    if note.get("width") != width:
        raise UserError(f"{path} has points of {note.get('width')} numbers, and the index's space {width}; {AGAIN}")
    return count, {str(kind): int(number) for kind, number in of.items()}


def _read(piece: bytes, folder: Path) -> Record:
    try:
        return record_of(json.loads(piece))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"{folder}: a record cannot be read ({error}); {AGAIN}") from error
