"""Rows of a Parquet file: texts, lists of texts, and pictures that the file itself holds (`parquet_pictures.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

from equipoise.data.files.parquet_pictures import StoredPicture, holds_pictures, opened_parquet, stored_pictures
from equipoise.types import UserError

PARQUET = (".parquet", ".pq")

Field = str | list[str] | StoredPicture | None


def parquet_columns(path: Path) -> list[str]:
    with opened_parquet(path) as file:
        return list(file.schema_arrow.names)


def text_columns(path: Path) -> list[str]:
    with opened_parquet(path) as file:
        return [field.name for field in file.schema_arrow if _is_text(field.type)]


def picture_columns(path: Path) -> list[str]:
    """The columns that hold pictures: those in Hugging Face's form before plain bytes."""
    import pyarrow

    with opened_parquet(path) as file:
        kinds = {field.name: field.type for field in file.schema_arrow if holds_pictures(field.type)}
    return sorted(kinds, key=lambda name: not pyarrow.types.is_struct(kinds[name]))


def parquet_rows(path: Path, names: Sequence[str]) -> Iterator[tuple[int, Sequence[Field]]]:
    """The named columns of each row, with its number from 1."""
    with opened_parquet(path) as file:
        inside = {name: iter(stored_pictures(path, name)) for name in names if _holds_pictures(file, name)}
        texts = list(dict.fromkeys(name for name in names if name not in inside))
        line = 0
        for count, columns in _text_batches(path, file, texts):
            for _ in range(count):
                line += 1
                fields = {name: next(column) for name, column in {**columns, **inside}.items()}
                yield line, [fields[name] for name in names]


def _text_batches(path: Path, file: Any, names: Sequence[str]) -> Iterator[tuple[int, dict[str, Iterator[Field]]]]:
    """Rows in each batch, and their fields by column."""
    if not names:
        yield file.metadata.num_rows, {}
        return
    for batch in file.iter_batches(columns=list(names)):
        yield batch.num_rows, {name: _texts(path, name, batch.column(name)) for name in names}


def _holds_pictures(file: Any, name: str) -> bool:
    return holds_pictures(file.schema_arrow.field(name).type)


def _is_text(kind: Any) -> bool:
    """Whether a column holds texts, or lists of them."""
    import pyarrow

    if pyarrow.types.is_list(kind) or pyarrow.types.is_large_list(kind):
        kind = kind.value_type
    is_plain = pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind)
    return is_plain or pyarrow.types.is_dictionary(kind)


def _texts(path: Path, name: str, column: Any) -> Iterator[Field]:
    if _is_null(column.type):
        return repeat(None, len(column))
    if not _is_text(column.type):
        raise UserError(f'{path}: the column "{name}" holds {column.type}, not text; name another one')
    return iter(column.to_pylist())


def _is_null(kind: Any) -> bool:
    """Whether a column has no value in any row, and so no type."""
    import pyarrow

    return pyarrow.types.is_null(kind)
