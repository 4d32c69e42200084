"""The k best items of every code, kept while scores stream by: memory [C, k], however many items there are."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

NONE = -1  # in the place of an item where fewer than k were seen


class Best:
    """An item may come again, in the same batch or later: it counts once, by its largest score."""

    def __init__(self, codes: int, k: int):
        self.values = torch.full((codes, k), -torch.inf, dtype=torch.float64)  # [C, k], largest first
        self.items = torch.full((codes, k), NONE)

    def add(self, items: Tensor, scores: Tensor) -> None:
        """Numbers of items [n], from 0, and their scores [n, C]."""
        if not len(items):
            return
        items, places = items.cpu().unique(return_inverse=True)
        scores = _largest(scores.detach().cpu().double(), places, len(items)).T  # [C, u]
        scores = torch.cat([scores, torch.full_like(scores[:, :1], -torch.inf)], dim=1)  # a place for those not here
        here = self._find(items)
        self.values = torch.maximum(self.values, scores.gather(1, here))
        scores = scores.scatter(1, here, -torch.inf)
        items = torch.cat([items, torch.tensor([NONE])]).expand(len(scores), -1)
        values, chosen = torch.cat([self.values, scores], dim=1).topk(self.values.shape[1], dim=1)
        self.items = torch.cat([self.items, items], dim=1).gather(1, chosen).masked_fill(values == -torch.inf, NONE)
        self.values = values

    def _find(self, items: Tensor) -> Tensor:
        """The place of every item we have among these sorted ones; behind them all where it is not there."""
        place = torch.searchsorted(items, self.items.contiguous())
        there = items[place.clamp(max=len(items) - 1)] == self.items
        return torch.where(there & (place < len(items)), place, len(items))

    def of(self, code: int) -> list[tuple[int, float]]:
        """The items of a code with their scores, best first."""
        both = zip(self.items[code].tolist(), self.values[code].tolist(), strict=True)
        return [(item, value) for item, value in both if item != NONE]


def _largest(scores: Tensor, places: Tensor, count: int) -> Tensor:
    """The largest of the rows that go to each of the places 0 ... count - 1."""
    order = places.argsort()
    starts = torch.searchsorted(places[order].contiguous(), torch.arange(count))
    return torch.from_numpy(np.maximum.reduceat(scores[order].numpy(), starts.numpy(), axis=0))
