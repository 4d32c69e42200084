"""Who keeps captions, or mixes sources, holds a few bytes a record."""

from __future__ import annotations

import numpy as np
import torch

from equipoise.data.files.mixture import _interleaved
from equipoise.data.keep.source import KeptSource
from equipoise.data.source import Pair

MANY = 100_000


class Numbers:
    """Any number of records with two captions each."""

    def __len__(self) -> int:
        return MANY

    def pair(self, index: int) -> Pair:
        return Pair(str(index), (f"{index} a", f"{index} b"))

    def images(self, indices: list[int], size: int, device: str = "cpu") -> torch.Tensor:
        return torch.zeros(len(indices), 3, size, size, dtype=torch.uint8)


def test_kept_captions():
    keep = np.arange(2 * MANY) % 2 == 0
    keep[:600] = False
    some = KeptSource(Numbers(), np.full(MANY, 2), keep)
    held = {id(array): array.nbytes for part in (some, some.source) for array in vars(part).values()
            if isinstance(array, np.ndarray)}  # fmt: skip
    assert sum(held.values()) < 15 * MANY
    assert (some.pair(0).key, some.pair(0).captions) == ("300", ("300 a",))
    assert some.pair(len(some) - 1).captions == (f"{MANY - 1} a",)


def test_a_mixture():
    owners, records = _interleaved([MANY, 5], [1, 7])
    assert owners.nbytes + records.nbytes <= 5 * (MANY + 35)
    assert np.bincount(owners).tolist() == [MANY, 35]
    assert np.array_equal(np.sort(records[owners == 0]), np.arange(MANY))
