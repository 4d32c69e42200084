"""Columns of a table, row by row: CSV and TSV by the standard library, Parquet by pyarrow."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from equipoise.types import UserError

SEPARATORS = {".csv": ",", ".tsv": "\t", ".txt": "\t"}
PARQUET = (".parquet", ".pq")
LONGEST_FIELD = 1 << 20
ADVICE = "name the right one in data.path, data.captions or data.label"

Row = tuple[int, Sequence[str | None]]  # its line, from 1, and its fields


def read_columns(path: Path, names: Sequence[str], separator: str = "", advice: str = ADVICE) -> Iterator[Row]:
    """The named columns of each row; a field that is missing is None. `advice` is for whoever lacks a column."""
    if path.suffix.lower() in PARQUET:
        return _parquet(path, names, advice)
    if not separator and path.suffix.lower() not in SEPARATORS:
        raise UserError(f"{path}: this is no .csv, .tsv or .parquet; say what divides its columns with data.separator")
    return _csv(path, names, separator or SEPARATORS[path.suffix.lower()], advice)


def _csv(path: Path, names: Sequence[str], separator: str, advice: str) -> Iterator[Row]:
    csv.field_size_limit(LONGEST_FIELD)
    try:
        # bytes that are not UTF-8 spoil their own row, not the table
        with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            reader = csv.reader(file, delimiter=separator)
            header = next(reader, [])
            places = [_place(path, header, name, advice) for name in names]
            for row in reader:
                if row:
                    yield reader.line_num, [row[place] if place < len(row) else None for place in places]
    except OSError as error:
        raise UserError(f"{path}: this table cannot be read ({error.strerror}); check it") from None
    except csv.Error as error:
        line = reader.line_num
        raise UserError(
            f"{path}, line {line}: this table cannot be read ({error}); see whether a quote is open"
        ) from None


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


def _parquet(path: Path, names: Sequence[str], advice: str) -> Iterator[Row]:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise UserError("reading Parquet needs pyarrow; install it with: pip install 'equipoise[parquet]'") from error
    try:
        with parquet.ParquetFile(path) as file:
            for name in names:
                _place(path, file.schema_arrow.names, name, advice)
            line = 0
            for batch in file.iter_batches(columns=list(dict.fromkeys(names))):
                columns = [_texts(path, name, batch.column(name)) for name in names]
                for fields in zip(*columns, strict=True):
                    line += 1
                    yield line, fields
    except UserError:
        raise
    except Exception as error:  # damaged files make pyarrow raise anything
        raise UserError(f"{path}: this cannot be read as Parquet ({' '.join(str(error).split())[:200]})") from None


def _texts(path: Path, name: str, column: Any) -> list[str | None]:
    import pyarrow

    kind = column.type
    if not (pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind) or pyarrow.types.is_dictionary(kind)):
        raise UserError(f'{path}: the column "{name}" holds {kind}, not text; name another one')
    return column.to_pylist()
