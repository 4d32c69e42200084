"""Columns of a table, row by row: CSV and TSV by the standard library, Parquet by `table_parquet.py`, JSON by
`table_json.py`."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path, PurePath
from typing import Any

from equipoise.data.files.parquet_pictures import StoredPicture
from equipoise.data.files.table_json import JSON, json_rows
from equipoise.data.files.table_parquet import PARQUET, parquet_columns, parquet_rows, text_columns
from equipoise.types import UserError

SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
LONGEST_FIELD = 1 << 20
TABLES = (*SEPARATORS, *PARQUET, *JSON)  # endings of files that are tables
ADVICE = "name the right one in data.path, data.captions or data.label"

Cell = str | list[str] | StoredPicture | None  # texts in one field of a row: one, several, none; or a picture
Row = tuple[int, Sequence[Cell]]  # its line, from 1, and its fields


def read_columns(path: Path, names: Sequence[str], separator: str = "", advice: str = ADVICE) -> Iterator[Row]:
    """The named columns of each row; a field that is missing is None. `advice` is for whoever lacks a column."""
    if path.suffix.lower() in PARQUET:
        return _parquet(path, names, advice)
    if path.suffix.lower() in JSON:
        return _json(path, names, advice)
    if not separator and path.suffix.lower() not in SEPARATORS:
        raise UserError(
            f"{path}: this is no .csv, .tsv, .parquet, .jsonl or .json; say what divides its columns with "
            "data.separator"
        )
    return _csv(path, names, separator or SEPARATORS[path.suffix.lower()], advice)


def first_rows(path: Path, separator: str = "", count: int = 20) -> tuple[list[str], list[dict[str, Cell]]]:
    """The names of all columns that hold text, and the first rows by these names."""
    if path.suffix.lower() in PARQUET:
        header = text_columns(path)
    elif path.suffix.lower() in JSON:
        keys, _ = json_rows(path)
        header = list(keys)
    else:
        header = csv_header(path, separator or SEPARATORS.get(path.suffix.lower(), ","))
    rows = islice(read_columns(path, header, separator), count) if header else iter(())
    return header, [dict(zip(header, fields, strict=True)) for _, fields in rows]


def csv_header(path: Path, separator: str) -> list[str]:
    """The first row of a table of text."""
    csv.field_size_limit(LONGEST_FIELD)
    try:
        with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            return next(_Rows(path, file, separator), (0, []))[1]
    except OSError as error:
        raise UserError(f"{path}: this table cannot be read ({error.strerror}); check it") from None


def _parquet(path: Path, names: Sequence[str], advice: str) -> Iterator[Row]:
    columns = parquet_columns(path)
    for name in names:
        _place(path, columns, name, advice)
    return parquet_rows(path, names)


def _json(path: Path, names: Sequence[str], advice: str) -> Iterator[Row]:
    keys, rows = json_rows(path)
    for name in names:
        _place(path, list(keys), name, advice)
    return ((line, [_texts_in(row.get(name)) for name in names]) for line, row in rows)


def _texts_in(value: Any) -> Cell:
    """The text of a JSON value; None of what is no text."""
    if isinstance(value, list):
        return [text for text in map(_texts_in, value) if isinstance(text, str)]
    return str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else None


def _csv(path: Path, names: Sequence[str], separator: str, advice: str) -> Iterator[Row]:
    csv.field_size_limit(LONGEST_FIELD)
    try:
        # bytes that are not UTF-8 spoil their own row, not the table
        with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            rows = _Rows(path, file, separator)
            _, header = next(rows, (0, []))
            places = [_place(path, header, name, advice) for name in names]
            rows.width, rows.key = len(header), places[0]
            for line, row in rows:
                if row:
                    yield line, [row[place] if place < len(row) else None for place in places]
    except OSError as error:
        raise UserError(f"{path}: this table cannot be read ({error.strerror}); check it") from None


class _Rows:
    """The rows of a table, each with its last line. A field in quotes may hold line breaks, but no other rows.

    A quote that is never closed, or only by one of a later row, would take all rows between into its field. So the
    reader is strict; and a field of several lines, one of which is a row of its own (as many columns, and a first
    column that ends as this row's does, in .jpg say), is an error too.
    """

    def __init__(self, path: Path, file: Iterator[str], separator: str):
        self.path, self.separator = path, separator
        self.width = self.key = 0  # columns of the table, and the one that names a row; known from the header on
        self._file, self._last = file, ""
        self._reader = csv.reader(self._lines(), delimiter=separator, strict=True)

    def __iter__(self) -> _Rows:
        return self

    def __next__(self) -> tuple[int, list[str]]:
        start = self._reader.line_num + 1
        try:
            row = next(self._reader)
        except csv.Error as error:
            if self._reader.line_num != start or not _is_loose(error):
                raise self._damaged(start, f"{error}") from None
            row = next(csv.reader([self._last], delimiter=self.separator))  # `"so" he said`: no other row is lost
        line = self._reader.line_num
        if line > start and self._holds_rows(row):
            raise self._damaged(start, f"its field in quotes goes on to line {line} and holds other rows")
        return line, row

    def _lines(self) -> Iterator[str]:
        for line in self._file:
            self._last = line
            yield line

    def _holds_rows(self, row: Sequence[str]) -> bool:
        ending = _ending(row[self.key]) if self.key < len(row) else ""
        if self.width < 2 or not ending:
            return False
        lines = (line for field in row if "\n" in field or "\r" in field for line in field.splitlines())
        parts = (next(csv.reader([line], delimiter=self.separator), []) for line in lines)
        return any(len(part) == self.width and _ending(part[self.key]) == ending for part in parts)

    def _damaged(self, line: int, reason: str) -> UserError:
        return UserError(
            f"{self.path}, line {line}: this table cannot be read ({reason}); close the quote that is open in this "
            "row, or write it twice where it is a part of the text"
        )


def _is_loose(error: csv.Error) -> bool:
    """Whether text follows a quote that closes a field."""
    return "expected after" in str(error)


def _ending(name: str) -> str:
    """The ending of a file's name, in small letters."""
    return PurePath(name.strip()).suffix.lower()


def _place(path: Path, header: Sequence[str], name: str, advice: str) -> int:
    if name not in header:
        found = ", ".join(_shown(column) for column in header[:20]) or "none"
        raise UserError(f'{path}: there is no column "{name}"; the columns are {found}{_hint(header, advice)}')
    return header.index(name)


def _hint(header: Sequence[str], advice: str) -> str:
    if len(header) == 1 and any(mark in header[0] for mark in "\t;,|"):
        return "; it looks as if another data.separator divides them"
    return f"; {advice}"


def _shown(column: str) -> str:
    return repr(column.encode("utf-8", "backslashreplace").decode()[:60])
