"""Points in a file, mapped into memory: float32, float16 or int8 with one scale a point.

    int8    x ≈ s · q,  s = max|x| / 127,  q [d] in -127 ... 127

A search reads all of it or a few rows; what it has read is let go of, so that a process stays small however large the
file is (the system keeps what it has room for). N points of d numbers.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from torch import Tensor

from equipoise.types import UserError

POINTS, SCALES = "points.bin", "scales.bin"
DTYPES: dict[str, np.dtype] = {"float32": np.dtype("<f4"), "float16": np.dtype("<f2"), "int8": np.dtype("i1")}
TILE = 1 << 20  # numbers of a tile that becomes float32: it stays in the processor's cache
WHOLE = 1 << 23  # of one that is float32 in the file, and is not copied
LET_GO = 1 << 28  # bytes of a file that a process may have mapped before they are let go of
AROUND = 1 << 21  # bytes that the system may map around a row that is read
AGAIN = "the index is damaged: bring the folder back, or make it again"


class PointWriter:
    """Writes points one batch after the other."""

    def __init__(self, folder: Path, dtype: str):
        self.dtype, self.count = dtype, 0
        self.file: BinaryIO = (folder / POINTS).open("wb")
        self.scales: BinaryIO | None = (folder / SCALES).open("wb") if dtype == "int8" else None

    def add(self, points: Tensor) -> None:
        values = points.detach().to("cpu", torch.float32)
        if not values.isfinite().all():
            raise UserError("some points are not finite (NaN or infinite), so they cannot be searched; mend the model")
        if self.scales is not None:
            values, scales = quantized(values)
            self.scales.write(scales.numpy().astype("<f4").tobytes())
        with np.errstate(over="ignore"):  # what becomes infinite is refused below
            numbers = values.numpy().astype(DTYPES[self.dtype])
        if not np.isfinite(numbers).all():
            raise UserError(f"some points are too large for {self.dtype}; choose float32")
        self.file.write(numbers.tobytes())
        self.count += len(points)

    def copy(self, points: Points, places: np.ndarray) -> None:
        """Add stored points of the same dtype, bit for bit."""
        assert points.values.dtype == DTYPES[self.dtype]
        self.file.write(points.values[places].tobytes())
        if self.scales is not None and points.scales is not None:
            self.scales.write(points.scales[places].tobytes())
        self.count += len(places)

    def close(self) -> None:
        for file in (self.file, self.scales):
            if file is not None:
                file.close()


def quantized(points: Tensor) -> tuple[Tensor, Tensor]:
    """Points [N, d] as whole numbers -127 ... 127 and their scales [N]."""
    scales = points.abs().amax(1).div(127).clamp(min=torch.finfo(torch.float32).tiny)
    return (points / scales[:, None]).round().clamp(-127, 127), scales


class Points:
    """The points of a file [N, d]."""

    def __init__(self, folder: Path, count: int, width: int, dtype: str):
        self.count, self.width, self.touched = count, width, 0
        self.values = mapped(folder / POINTS, DTYPES[dtype], (count, width))
        self.scales = mapped(folder / SCALES, DTYPES["float32"], (count,)) if dtype == "int8" else None

    def __len__(self) -> int:
        return self.count

    def tiles(self) -> Iterator[tuple[int, Tensor]]:
        """All points, tile by tile: the number of the first, and the points [T, d] in float32, until the next."""
        as_is = self.values.dtype == np.float32
        step = max(1, (WHOLE if as_is else TILE) // self.width)
        room = None if as_is else torch.empty(step, self.width)  # made once: it is not small
        for start in range(0, self.count, step):
            tile = self.values[start : start + step]
            yield start, self._float(tile, slice(start, start + step), room)
            self._touch(tile.nbytes)

    def take(self, places: np.ndarray) -> Tensor:
        """The points at these places [n, d] in float32."""
        points = self._float(self.values[places], places, None)
        self._touch(len(places) * AROUND)
        return points

    def _float(self, values: np.ndarray, places: slice | np.ndarray, room: Tensor | None) -> Tensor:
        stored = torch.from_numpy(values)
        points = stored.float() if room is None else room[: len(values)].copy_(stored)
        return points if self.scales is None else points.mul_(torch.from_numpy(self.scales[places])[:, None])

    def _touch(self, size: int) -> None:
        """Count bytes that were mapped, and give back that memory where it is much."""
        self.touched += size
        is_large = self.values.nbytes >= LET_GO and isinstance(self.values, np.memmap)
        if is_large and self.touched >= LET_GO and hasattr(mmap, "MADV_DONTNEED"):
            self.values._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]
            self.touched = 0


def mapped(path: Path, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """A file of numbers mapped into memory; raises UserError where it has another size."""
    expected = int(np.prod(shape)) * dtype.itemsize
    try:
        found = path.stat().st_size
        if found != expected:
            raise UserError(f"{path} has {found:,} bytes, not {expected:,}; {AGAIN}")
        # copy on write: torch takes no array that cannot be written to, and nothing reaches the file
        return np.memmap(path, dtype, "c", shape=shape) if expected else np.empty(shape, dtype)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}; {AGAIN}") from error
