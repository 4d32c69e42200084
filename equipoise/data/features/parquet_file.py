"""A Parquet file of features: a row is an image, and a column of lists (of lists) is an array.

    image [w] · text [k, w] and captions [k], k texts of the image · text_count k · keys · label

Without `text_count` all images have as many texts. With it, `text` and `captions` may be of any length, and are read
one below the other, as arrays [M, w] with `image_of_text` [M] are. `equipoise embed --format parquet` writes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from equipoise.io.atomic import replacing, write_text
from equipoise.types import UserError

if TYPE_CHECKING:
    import pyarrow

TEXT_COUNT = "text_count"
OF_TEXTS = ("text", "captions")
IMAGE_OF_TEXT = "image_of_text"


def column_names(path: Path) -> list[str]:
    """Names of the columns of a file."""
    require_pyarrow(path)
    from pyarrow import parquet

    return list(parquet.read_schema(path).names)


def require_pyarrow(path: object) -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise UserError(f"{path}: Parquet needs pyarrow; pip install 'equipoise[parquet]'") from error


def read_columns(path: Path, wanted: set[str]) -> tuple[dict[str, Tensor], dict[str, list[Any]]]:
    """Those of the `wanted` columns that the file holds, numbers and words."""
    there = column_names(path)
    import pyarrow as arrow
    from pyarrow import parquet

    counted = TEXT_COUNT in there and IMAGE_OF_TEXT in wanted
    names = [name for name in there if name in wanted]
    table = parquet.read_table(path, columns=[*names, *([TEXT_COUNT] if counted else [])])
    tensors: dict[str, Tensor] = {}
    words: dict[str, list[Any]] = {}
    counts = None
    if counted:
        counts = torch.from_numpy(_numbers(table.column(TEXT_COUNT).combine_chunks(), _where(path, TEXT_COUNT)))
        tensors[IMAGE_OF_TEXT] = torch.arange(len(counts)).repeat_interleave(counts)
    for name in names:
        column = table.column(name).combine_chunks()
        if counts is not None and name in OF_TEXTS:
            column = _one_below_the_other(column, counts, _where(path, name))
        if arrow.types.is_string(_leaf(column.type)) or arrow.types.is_large_string(_leaf(column.type)):
            words[name] = column.to_pylist()
        else:
            tensors[name] = torch.from_numpy(_numbers(column, _where(path, name)))
    return tensors, words


def write_columns(path: Path, tensors: Mapping[str, Tensor], words: Mapping[str, list[Any]]) -> None:
    """Write arrays and lists of words, texts with `image_of_text` [M] as lists in their images' rows. How many rows
    there are is said in the .json beside it, which comes first: a file that exists is complete."""
    import pyarrow as arrow
    from pyarrow import parquet

    rows = len(words["keys"])
    counts = torch.bincount(tensors[IMAGE_OF_TEXT], minlength=rows)
    starts = np.concatenate([[0], counts.cumsum(0).numpy()]).astype(np.int64)
    columns: dict[str, Any] = {name: arrow.array(values, arrow.string()) for name, values in words.items()}
    columns |= {name: _lists(tensor) for name, tensor in tensors.items() if name != IMAGE_OF_TEXT}
    for name in OF_TEXTS:
        if name in columns:
            columns[name] = arrow.LargeListArray.from_arrays(starts, columns[name])
    write_text(path.with_suffix(".json"), json.dumps({"records": rows}))
    with replacing(path) as temporary:
        table = arrow.table({**columns, TEXT_COUNT: counts.numpy()})
        parquet.write_table(table, temporary, compression="none", use_dictionary=False)


def _lists(tensor: Tensor) -> pyarrow.Array:
    """An array [N, ...] as N lists (of lists)."""
    import pyarrow as arrow

    column = arrow.array(tensor.contiguous().view(-1).numpy())
    for size in reversed(tensor.shape[1:]):
        column = arrow.FixedSizeListArray.from_arrays(column, size)
    return column


def _one_below_the_other(column: pyarrow.Array, counts: Tensor, where: str) -> pyarrow.Array:
    """The texts of all rows, each of which has as many as are said."""
    if not hasattr(column.type, "value_type") or _lengths(column).to_pylist() != counts.tolist():
        raise UserError(f"{where} must be lists of as many texts as {TEXT_COUNT!r} says; correct either")
    return column.flatten()


def _numbers(column: pyarrow.Array, where: str) -> np.ndarray:
    """Nested lists of numbers, all of one length at each depth, as one array."""
    shape = []
    while hasattr(column, "flatten") and hasattr(column.type, "value_type"):
        if column.null_count:
            raise UserError(f"{where} has {column.null_count} missing rows; fill them or leave them out")
        inner, rows = column.flatten(), len(column)
        length = len(inner) // max(1, rows)
        if rows and any(size.as_py() != length for size in _lengths(column).unique()):
            raise UserError(
                f"{where} has rows of different lengths; pad tokens and say their lengths in a column, and count "
                f"texts in a column {TEXT_COUNT!r}"
            )
        shape.append(rows)
        column = inner
    if column.null_count:
        raise UserError(f"{where} has {column.null_count} missing values; fill them or leave the rows out")
    sizes = [*(outer // max(1, before) for before, outer in zip([1, *shape], [*shape, len(column)], strict=False))]
    return np.array(column.to_numpy(zero_copy_only=False)).reshape(sizes)


def _lengths(column: pyarrow.Array) -> pyarrow.Array:
    from pyarrow import compute

    return compute.list_value_length(column)


def _leaf(kind: Any) -> Any:
    while hasattr(kind, "value_type"):
        kind = kind.value_type
    return kind


def _where(path: Path, name: str) -> str:
    return f"{path}: column {name!r}"
