"""One file of arrays, whatever its format: tensors by name, and lists of words (keys, captions, labels) by name.

    .npz           arrays as numpy.savez writes them; words as arrays of text
    .safetensors   tensors, mapped into memory and not read; words in a .json of the same name beside it
    .parquet       columns: lists of numbers become arrays, lists of lists one axis more; words as text columns

Nothing is unpickled: an npz that holds Python objects raises UserError.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from equipoise.io.json_files import read_json
from equipoise.types import UserError

if TYPE_CHECKING:
    import pyarrow

Found = TypeVar("Found")
PICKLES = (".pkl", ".pickle")


@dataclass(frozen=True)
class Arrays:
    path: Path
    tensors: dict[str, Tensor]
    words: dict[str, list[Any]] = field(default_factory=dict)  # text, or one list of texts per row
    part: str = ""  # the split that these are the rows of, where the file holds several

    @property
    def place(self) -> str:
        """Where these are, for a sentence."""
        return f"{self.path}, {self.part}" if self.part else str(self.path)

    def names(self) -> list[str]:
        return [*self.tensors, *self.words]


def read_arrays(path: Path, wanted: Iterable[str]) -> Arrays:
    """Reads those of the `wanted` arrays that the file holds."""
    return _read(path, lambda: READERS[path.suffix](path, set(wanted)))


def array_names(path: Path) -> list[str]:
    """Names of all that a file holds, which is not read."""
    return _read(path, lambda: NAMES[path.suffix](path))


def _read(path: Path, read: Callable[[], Found]) -> Found:
    if path.suffix not in READERS:
        by = " with `equipoise data convert`" if path.suffix in PICKLES else ""
        raise UserError(f"{path}: features are read from {', '.join(READERS)} files; convert this one{by}")
    if not path.is_file():
        raise UserError(f"{path}: there is no such file; check the path")
    try:
        return read()
    except (UserError, MemoryError):
        raise
    except Exception as error:  # three libraries, each with errors of its own for a file that is broken
        raise UserError(f"{path}: this file cannot be read ({_first_line(error)}); write it again") from error


def _read_npz(path: Path, wanted: set[str]) -> Arrays:
    tensors, words = {}, {}
    with _open_npz(path) as file:
        for name in wanted & set(file.files):
            array = _array(file, name)
            if array.dtype.kind in "US":
                words[name] = array.astype(str).tolist()
            else:
                tensors[name] = torch.from_numpy(array)
    return Arrays(path, tensors, words)


def _open_npz(path: Path) -> Any:
    if not zipfile.is_zipfile(path):  # numpy would take a pickle for one, and say how to run it
        raise ValueError("it is no npz file, or a part of one")
    return np.load(path, allow_pickle=False)


def _array(file: Any, name: str) -> np.ndarray:
    try:
        array: np.ndarray = file[name]
    except ValueError as error:
        if "allow_pickle" not in str(error):
            raise
        raise ValueError(
            f"array {name!r} holds Python objects, of which nothing is unpickled: save numbers as floats and texts by "
            ".astype(str)"
        ) from error
    if array.dtype.kind not in "USbiufc":
        raise ValueError(f"array {name!r} holds {array.dtype}, neither numbers nor text")
    return array


def _read_safetensors(path: Path, wanted: set[str]) -> Arrays:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in wanted & set(file.keys())}
    except SafetensorError as error:
        raise ValueError(error) from error
    return Arrays(path, tensors, {name: value for name, value in _words_beside(path).items() if name in wanted})


def _words_beside(path: Path) -> dict[str, list[Any]]:
    beside = path.with_suffix(".json")
    words = read_json(beside) if beside.is_file() else {}
    if not isinstance(words, dict) or not all(isinstance(value, list) for value in words.values()):
        raise UserError(f"{beside}: this must be an object of lists, such as keys and captions; write it again")
    return words


def _npz_names(path: Path) -> list[str]:
    with _open_npz(path) as file:
        return list(file.files)


def _safetensors_names(path: Path) -> list[str]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:
            return [*file.keys(), *_words_beside(path)]
    except SafetensorError as error:
        raise ValueError(error) from error


def _parquet_names(path: Path) -> list[str]:
    _require_pyarrow(path)
    from pyarrow import parquet

    return list(parquet.read_schema(path).names)


def _require_pyarrow(path: Path) -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise UserError(f"{path}: Parquet needs pyarrow; pip install 'equipoise[parquet]'") from error


def _read_parquet(path: Path, wanted: set[str]) -> Arrays:
    _require_pyarrow(path)
    import pyarrow as arrow
    from pyarrow import parquet

    names = [name for name in parquet.read_schema(path).names if name in wanted]
    table = parquet.read_table(path, columns=names)
    tensors, words = {}, {}
    for name in names:
        column = table.column(name).combine_chunks()
        if arrow.types.is_string(_leaf(column.type)) or arrow.types.is_large_string(_leaf(column.type)):
            words[name] = column.to_pylist()
        else:
            tensors[name] = torch.from_numpy(_numbers(column, f"{path}: column {name!r}"))
    return Arrays(path, tensors, words)


def _numbers(column: pyarrow.Array, where: str) -> np.ndarray:
    """Nested lists of numbers, all of one length at each depth, as one array."""
    shape = []
    while hasattr(column, "flatten") and hasattr(column.type, "value_type"):
        if column.null_count:
            raise UserError(f"{where} has {column.null_count} missing rows; fill them or leave them out")
        inner, rows = column.flatten(), len(column)
        length = len(inner) // max(1, rows)
        if rows and any(size.as_py() != length for size in _lengths(column).unique()):
            raise UserError(f"{where} has rows of different lengths; pad them and say their lengths in a column")
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


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


READERS: dict[str, Callable[[Path, set[str]], Arrays]] = {
    ".npz": _read_npz,
    ".safetensors": _read_safetensors,
    ".parquet": _read_parquet,
}
NAMES: dict[str, Callable[[Path], list[str]]] = {
    ".npz": _npz_names,
    ".safetensors": _safetensors_names,
    ".parquet": _parquet_names,
}
