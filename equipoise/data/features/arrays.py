"""One file of arrays, whatever its format: tensors by name, and lists of words (keys, captions, labels) by name.

    .npz           arrays as numpy.savez writes them; words as arrays of text
    .safetensors   tensors, mapped into memory and not read; words in a .json of the same name beside it
    .parquet       columns: lists of numbers become arrays, lists of lists one axis more; words as text columns
                   (`parquet_file.py`)

Nothing is unpickled: an npz that holds Python objects raises UserError.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from equipoise.data.features.parquet_file import column_names, read_columns
from equipoise.io.json_files import read_json
from equipoise.types import UserError

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


def _read_parquet(path: Path, wanted: set[str]) -> Arrays:
    return Arrays(path, *read_columns(path, wanted))


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
    ".parquet": column_names,
}
