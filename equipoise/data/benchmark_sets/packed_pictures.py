"""Pictures that lie in one file as arrays: CIFAR, STL-10, MNIST, as their authors packed them.

    cifar-10-batches-py/test_batch, cifar-100-python/test      pickles, read as plain data alone (`io/plain_pickle.py`)
    cifar-10-batches-bin/test_batch.bin, cifar-100-binary/test.bin    class (CIFAR-100: coarse, fine), then 3 x 32 x 32
    stl10_binary/test_X.bin, test_y.bin                        3 x 96 x 96 each, columns first; classes from 1
    MNIST/raw/t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte   a header of 16 and of 8 bytes

Each picture is handed on as a PNG, which loses nothing.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image

from equipoise.data.bad_records import Fault
from equipoise.data.files.records import side_files_of
from equipoise.data.source import Pair
from equipoise.io.plain_pickle import read_plain_pickle
from equipoise.types import UserError


class PackedRecords:
    """Pictures [N, H, W, 3] in memory as records."""

    def __init__(self, pixels: np.ndarray, place: str):
        self.pixels, self.where = pixels, place
        self.faults: list[Fault] = []

    def __len__(self) -> int:
        return len(self.pixels)

    def key(self, index: int) -> str:
        return str(index)

    def place(self, index: int) -> str:
        return f"{self.where}, picture {index}"

    def pair(self, index: int) -> Pair:
        return Pair(self.key(index), ())

    def image(self, index: int) -> bytes:
        buffer = io.BytesIO()
        Image.fromarray(self.pixels[index]).save(buffer, format="PNG", compress_level=1)
        return buffer.getvalue()

    def read(self, index: int) -> tuple[Pair, bytes]:
        return self.pair(index), self.image(index)

    def side_files(self, index: int) -> Mapping[str, bytes]:
        return side_files_of(self.pair(index))


Packed = tuple[PackedRecords, list[int]]


def read_cifar_pickle(file: Path, fine: bool = False) -> Packed:
    """A batch of CIFAR's Python version; `fine`: of CIFAR-100."""
    table, key = read_plain_pickle(file), "fine_labels" if fine else "labels"
    if not isinstance(table, dict) or not isinstance(table.get("data"), np.ndarray) or key not in table:
        raise UserError(f"{file} is no batch of CIFAR: it has no data and {key}")
    return _cifar(table["data"], [int(label) for label in table[key]], file)


def read_cifar_binary(file: Path, fine: bool = False) -> Packed:
    """A batch of CIFAR's binary version."""
    labels = 2 if fine else 1
    rows = _bytes(file, labels + 3072).reshape(-1, labels + 3072)
    return _cifar(rows[:, labels:], rows[:, labels - 1].tolist(), file)


def _cifar(data: np.ndarray, labels: list[int], file: Path) -> Packed:
    if data.ndim != 2 or data.shape != (len(labels), 3072) or data.dtype != np.uint8:
        raise UserError(f"{file} is no batch of CIFAR: its data has the shape {data.shape}, for {len(labels)} labels")
    return PackedRecords(np.ascontiguousarray(data.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)), str(file)), labels


def read_stl10(folder: Path) -> Packed:
    pixels = _bytes(folder / "test_X.bin", 3 * 96 * 96).reshape(-1, 3, 96, 96).transpose(0, 3, 2, 1)
    labels = _bytes(folder / "test_y.bin", 1).astype(int) - 1
    return _matching(np.ascontiguousarray(pixels), labels, folder / "test_X.bin")


def read_mnist(folder: Path) -> Packed:
    pixels = _bytes(folder / "t10k-images-idx3-ubyte", 28 * 28, header=16).reshape(-1, 28, 28, 1).repeat(3, axis=3)
    labels = _bytes(folder / "t10k-labels-idx1-ubyte", 1, header=8).astype(int)
    return _matching(pixels, labels, folder / "t10k-images-idx3-ubyte")


def _matching(pixels: np.ndarray, labels: np.ndarray, file: Path) -> Packed:
    if len(pixels) != len(labels):
        raise UserError(f"{file} has {len(pixels):,} pictures, but there are {len(labels):,} labels beside it")
    return PackedRecords(pixels, str(file)), labels.tolist()


def _bytes(file: Path, record: int, header: int = 0) -> np.ndarray:
    try:
        content = np.fromfile(file, dtype=np.uint8)[header:]
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}") from None
    if not len(content) or len(content) % record:
        raise UserError(f"{file} has {len(content):,} bytes, which are no records of {record:,}; fetch it again")
    return content
