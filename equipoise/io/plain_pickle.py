"""Plain data out of a pickle: lists, tables, texts, numbers and arrays of numbers; nothing in the file is ever called.

Some data sets are published as pickles (CIFAR's batches, the ground truth of revisited Oxford and Paris). A pickle may
name any function and have it called, so every name is refused but those by which numpy writes arrays, and for these
stand functions of our own that can do no more than hold bytes.
"""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from equipoise.types import UserError

MOST_BYTES = 1 << 29
NUMBERS, TEXTS, THINGS = "biuf", "US", "O"  # kinds of numpy's types that are read; things must be plain texts


class _Type:
    """A type of numbers by its name, `u1`, and later its byte order."""

    def __init__(self, name: Any, *_: Any):
        self.name, self.order = _text(name), "|"

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.order = _text(state[1])

    @property
    def numpy(self) -> np.dtype[Any]:
        kind = np.dtype(f"{self.order if self.order in '<>=|' else '|'}{self.name}")
        if kind.kind not in NUMBERS + TEXTS + THINGS:
            raise pickle.UnpicklingError(f"an array of {kind}")
        return kind


class _Array:
    """An array as numpy pickles it: version, shape, type, order, bytes."""

    value: np.ndarray

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, by_column, data = state
        if kind.numpy.kind in THINGS:
            self.value = _texts(data, shape)
            return
        content = data.encode("latin1") if isinstance(data, str) else bytes(data)
        array = np.frombuffer(content, dtype=kind.numpy)
        self.value = array.reshape(shape, order="F" if by_column else "C")


def _texts(data: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Texts that numpy has kept as things, as an array of text."""
    if not isinstance(data, list) or not all(isinstance(one, str | bytes) for one in data):
        raise pickle.UnpicklingError("an array of things that are no texts")
    return np.array([_text(one) for one in data], dtype=str).reshape(shape)


def _from_buffer(data: Any, kind: _Type, shape: tuple[int, ...], order: str) -> _Array:
    array = _Array()
    array.__setstate__((1, shape, kind, order == "F", data))
    return array


def _scalar(kind: _Type, data: Any) -> Any:
    content = data.encode("latin1") if isinstance(data, str) else bytes(data)
    return np.frombuffer(content, dtype=kind.numpy)[0].item()


def _text(value: Any) -> str:
    return value.decode("latin1") if isinstance(value, bytes) else str(value)


STANDING_IN: dict[tuple[str, str], Any] = {
    **{(f"numpy.{core}.multiarray", "_reconstruct"): lambda *_: _Array() for core in ("core", "_core")},
    **{(f"numpy.{core}.multiarray", "scalar"): _scalar for core in ("core", "_core")},
    **{(f"numpy.{core}.numeric", "_frombuffer"): _from_buffer for core in ("core", "_core")},
    ("numpy", "ndarray"): None,
    ("numpy", "dtype"): _Type,
    ("_codecs", "encode"): lambda text, *_: text.encode("latin1"),  # how Python 3 writes bytes for Python 2
}


PYTHON: Any = pickle._Unpickler  # the one in Python: that in C makes a list as long as any number that a file names


class _Plain(PYTHON):  # type: ignore[misc]
    dispatch: ClassVar[dict[int, Any]] = dict(PYTHON.dispatch)

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in STANDING_IN:
            raise pickle.UnpicklingError(f"it names {module}.{name}, and only plain data is read")
        return STANDING_IN[module, name]

    def load_build(self) -> None:
        """Fill an array or a type of numbers; the functions above are not to be changed."""
        if not isinstance(self.stack[-2], _Array | _Type):
            raise pickle.UnpicklingError("it changes what is no array, and only plain data is read")
        super().load_build()

    dispatch[pickle.BUILD[0]] = load_build


def read_plain_pickle(path: Path, most: int = MOST_BYTES) -> Any:
    """The data of a pickle of at most so many bytes, texts of Python 2 as text; raises UserError for anything but plain
    data."""
    try:
        if path.stat().st_size > most:
            raise UserError(f"{path} is larger than {most:,} bytes; give the file as it was published")
        content = _Plain(io.BytesIO(path.read_bytes()), encoding="latin1").load()
        return _unwrapped(content)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    except (UserError, MemoryError):
        raise
    except Exception as error:  # a damaged pickle may raise anything
        raise UserError(f"{path} is no pickle of plain data ({error}); give the file as it was published") from None


def _unwrapped(value: Any) -> Any:
    if isinstance(value, _Array):
        return value.value
    if isinstance(value, dict):
        return {key: _unwrapped(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_unwrapped(one) for one in value]
    return value
