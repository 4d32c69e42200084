"""Which images are near to which, as pairs of them are compared, and who is in a crowd by then."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import torch
from torch import Tensor

from equipoise.data.copies.find import CROWD


class Partners:
    """Of `count` images by their places; those that more than `CROWD` are near to are in a crowd, and theirs are noted
    no longer."""

    def __init__(self, count: int):
        self._of: dict[int, dict[int, float]] = defaultdict(dict)
        self._crowded = torch.zeros(count, dtype=torch.bool)

    def undecided(self, one: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
        """The pairs that are not both in a crowd: of others, n² in a kind of n images, nothing would be noted."""
        left = ~(self._crowded[one] & self._crowded[other])
        return one[left], other[left]

    def note(self, one: int, other: int, cosine: float) -> None:
        for a, b in ((one, other), (other, one)):
            if self._crowded[a]:
                continue
            self._of[a][b] = cosine
            if len(self._of[a]) > CROWD:
                self._crowded[a] = True
                del self._of[a]

    def pairs(self) -> Iterator[tuple[tuple[int, int], float]]:
        """Those that are near, the first one lower, without those of a crowd."""
        for a, others in self._of.items():
            for b, cosine in others.items():
                if a < b and not self._crowded[b]:
                    yield (a, b), cosine
