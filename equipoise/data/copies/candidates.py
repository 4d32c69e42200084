"""Pairs of 64-bit hashes that may be near, without comparing all with all.

A hash is cut into four bands of 16 bits. Two that differ in at most three bits share a band, and most that differ in a
few more do. For each band the hashes are sorted with it in front, so that those that share it stand together, the most
alike next to each other; of a crowded band (a white background) only the `WINDOW` next ones on either side are taken.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

BAND, BITS = 16, 64
WINDOW = 32
AT_ONCE = 1 << 17  # hashes looked up at once


def sharing_a_band(hashes: np.ndarray, others: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Places in `hashes` and in `others` (uint64) of pairs that share a band, some at a time, some more than once."""
    for turn in range(0, BITS, BAND):
        keys, sought = _turned(others, turn), _turned(hashes, turn)
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        for start in range(0, len(sought), AT_ONCE):
            rows, places = _windows(keys, sought[start : start + AT_ONCE])
            yield rows + start, order[places]


def _windows(keys: np.ndarray, sought: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For each hash that is sought, the places of those of the sorted `keys` that share its first band."""
    rest = np.uint64(BITS - BAND)
    first = (sought >> rest) << rest
    place = np.searchsorted(keys, sought)
    low = np.maximum(np.searchsorted(keys, first), place - WINDOW)
    high = np.searchsorted(keys, first | np.uint64((1 << (BITS - BAND)) - 1), side="right")
    counts = np.minimum(high, place + WINDOW) - low
    rows = np.repeat(np.arange(len(sought)), counts)
    return rows, np.arange(len(rows)) - np.repeat(counts.cumsum() - counts - low, counts)


def _turned(hashes: np.ndarray, bits: int) -> np.ndarray:
    """The hashes with their first `bits` moved to the end."""
    if not bits:
        return hashes
    return (hashes << np.uint64(bits)) | (hashes >> np.uint64(BITS - bits))
