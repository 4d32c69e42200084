"""Numbers of records in as little memory as they need: an array of small integers, or a bit a record.

A list of Python's integers takes 36 bytes of each. Arithmetic with small unsigned integers wraps around, so whoever
adds or subtracts takes them out as `int` or int64 first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

SMALL = (np.uint8, np.uint16, np.uint32)
BLOCK = 512  # bits that are counted together


def record_numbers(values: Sequence[int] | np.ndarray) -> np.ndarray:
    """The numbers as an array of the smallest type that holds them all; the array itself where it is that already."""
    if isinstance(values, range):
        values = np.arange(values.start, values.stop, values.step)
    found = np.asarray(values)
    if found.dtype.kind not in "iu":
        found = np.asarray(values, dtype=np.int64)
    least, most = int(found.min(initial=0)), int(found.max(initial=0))
    fitting = (dtype for dtype in SMALL if least >= 0 and most <= np.iinfo(dtype).max)
    return found.astype(next(fitting, np.int64), copy=False)


class Selection:
    """The numbers where `chosen` [N] is True, in their order; a bit for each of the N, and their count up to each
    block, by which the k-th is found."""

    def __init__(self, chosen: np.ndarray):
        self._bits = np.packbits(chosen)
        starts = np.arange(0, max(1, len(chosen)), BLOCK)
        counts = np.add.reduceat(chosen, starts, dtype=np.int64) if len(chosen) else np.zeros(1, dtype=np.int64)
        self._before = record_numbers(np.append(0, counts.cumsum()))

    def __len__(self) -> int:
        return int(self._before[-1])

    def __getitem__(self, index: int) -> int:
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(f"there are {len(self)} numbers, so there is none at {index}")
        block = int(np.searchsorted(self._before, place, side="right")) - 1
        bits = np.unpackbits(self._bits[block * BLOCK // 8 : (block + 1) * BLOCK // 8])
        return block * BLOCK + int(np.flatnonzero(bits)[place - int(self._before[block])])
