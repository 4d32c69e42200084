"""A table of image files with their captions: CSV, TSV, Parquet or JSON, with open_clip's columns `filepath`, `title`.

    [data]
    name = "table"
    train = "pairs.csv"
    captions = ["title", "description"]

Paths in the table are relative to the table's folder, or to `images`; the column `path` of a Parquet file may hold
the pictures themselves (`parquet_pictures.py`). Rows of one picture are one record with all their captions
(`table_join.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from equipoise.data.bad_records import Fault
from equipoise.data.files.captions import BadText, checked, has_surrogates, in_windows
from equipoise.data.files.file_source import FileSettings
from equipoise.data.files.image_folder import read_picture
from equipoise.data.files.parquet_pictures import StoredPicture
from equipoise.data.files.paths import Patterns, as_tuple, find_files
from equipoise.data.files.records import Records, Subset, side_files_of
from equipoise.data.files.table_columns import Cell, read_columns
from equipoise.data.files.table_join import JOINS, TableRow, joined
from equipoise.data.files.table_splits import rows_of_split, split_named
from equipoise.data.source import Pair
from equipoise.types import UserError


@dataclass(frozen=True)
class Table(FileSettings):
    path: str = "filepath"  # the column of the image files
    captions: Patterns = "title"  # the column of the captions, or several
    caption_separator: str = ""  # what divides several captions in one field
    label: str = ""  # a column
    split: str = ""  # a column: train, val, test and their like (`table_splits.py`); it divides the files by itself
    separator: str = ""  # of the columns; where it is not given a comma in .csv and a tab in .tsv
    images: str = ""  # the folder that paths in the table start from; the table's own where it is not given
    join: str = "path"  # rows of one picture are one record: by path, by bytes too, or none of them

    def __post_init__(self) -> None:
        super().__post_init__()
        if not as_tuple(self.captions):
            raise UserError("captions names no column; give one or a list")
        if len(self.separator) > 1:
            raise UserError(f'separator is "{self.separator}"; give one character')
        if self.join not in JOINS:
            raise UserError(f'join is "{self.join}"; choose one of {", ".join(JOINS)}')

    def records(self, patterns: tuple[str, ...]) -> TableRecords:
        rows, faults = list[TableRow](), list[Fault]()
        for file in find_files(patterns, self.root, folder_ending=".csv"):
            folder = Path(self.root) / self.images if self.images else file.parent
            names = (self.path, *as_tuple(self.captions), *filter(None, (self.label, self.split)))
            for line, fields in read_columns(file, names, self.separator):
                try:
                    rows.append(self._row(f"{file}, line {line}", folder, fields))
                except BadText as error:
                    faults.append(Fault(f"{file}, line {line}", str(error)))
        return TableRecords(joined(rows, self.join), faults)

    def _row(self, place: str, folder: Path, fields: Sequence[Cell]) -> TableRow:
        first, *cells = fields
        split = split_named(_text(cells.pop(), self.split), self.split) if self.split else ""
        stored = first if isinstance(first, StoredPicture) and first.digest else None
        for cell, column in zip(cells, (*as_tuple(self.captions), self.label), strict=False):
            if isinstance(cell, StoredPicture):
                raise UserError(f'{place}: the column "{column}" holds pictures, not text; name another one')
        path = stored.key if stored else _text(first.path if isinstance(first, StoredPicture) else first, self.path)
        label = _text(cells.pop(), self.label) if self.label else ""
        if not path.strip():
            raise BadText(f'the column "{self.path}" is empty')
        return TableRow(place, path, folder, self._captions(cells), label or None, stored, split)

    def files_of(self, split: str) -> tuple[tuple[str, ...], str]:
        if not self.split:
            return super().files_of(split)
        given = (as_tuple(getattr(self, name)) for name in (split, "train", "validation", "test"))
        return next((patterns for patterns in given if patterns), ()), ""

    def part_of(self, records: Records, split: str, part: str) -> tuple[Records, str]:
        if not self.split:
            return records, part
        assert isinstance(records, TableRecords)
        rows, part = rows_of_split(records.rows, split, test_alone=not as_tuple(self.train))
        return Subset(records, np.array(rows, dtype=np.int64)), part

    def _captions(self, cells: Sequence[Cell]) -> tuple[str, ...]:
        several = (cell if isinstance(cell, list) else [cell] for cell in cells)
        texts = [text for part in several for text in part if isinstance(text, str) and text]
        split = [text.split(self.caption_separator) if self.caption_separator else [text] for text in texts]
        return tuple(checked([part for parts in split for part in parts], "caption"))


def _text(cell: Cell, column: str) -> str:
    """The one text of a field, or none. Raises BadText."""
    if isinstance(cell, list | StoredPicture):
        raise BadText(f'the column "{column}" holds a list')
    if cell and (has_surrogates(cell) or "\0" in cell):
        raise BadText(f'the column "{column}" is not UTF-8 text{in_windows(cell)}')
    return cell or ""


class TableRecords:
    def __init__(self, rows: list[TableRow], faults: list[Fault]):
        self.rows, self.faults = rows, faults

    def __len__(self) -> int:
        return len(self.rows)

    def key(self, index: int) -> str:
        return self.rows[index].path

    def place(self, index: int) -> str:
        return self.rows[index].place

    def pair(self, index: int) -> Pair:
        row = self.rows[index]
        return Pair(row.path, row.captions, row.label)

    def image(self, index: int) -> bytes:
        row = self.rows[index]
        return row.stored.read(row.place) if row.stored else read_picture(row.folder / row.path, row.place)

    def read(self, index: int) -> tuple[Pair, bytes]:
        return self.pair(index), self.image(index)

    def side_files(self, index: int) -> Mapping[str, bytes]:
        return side_files_of(self.pair(index))
