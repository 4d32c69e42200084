"""Wrong captions on purpose: a share of the training pairs of any source get one another's texts.

    [shuffle]
    share = 0.4

The pairs to be spoiled are drawn by `seed` and their texts handed round in a random circle, so that none keeps its own
and the share is exact; images stay where they are. Who was given whose texts is known (`donors`, and `truth` of each
pair), so that what finds wrong pairs can be judged.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from equipoise.data.remap import RemappedSource
from equipoise.data.rng import generator
from equipoise.data.source import Source
from equipoise.settings.bounds import SEED, within
from equipoise.types import UserError


@dataclass(frozen=True)
class Shuffle:
    share: float = 0.0  # of the training pairs
    seed: int = within(SEED, 0)

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise UserError(f"share is {self.share}; give a share of pairs from 0 to 1")

    def applied_to(self, source: Source) -> Source:
        """The source with some texts exchanged; the source itself where none are."""
        donors = shuffled(len(source), self.share, self.seed)
        if torch.equal(donors, torch.arange(len(source))):
            return source
        return RemappedSource(source, range(len(source)), donors.tolist())


def shuffled(count: int, share: float, seed: int) -> Tensor:
    """For each of `count` pairs the number of the pair whose texts it gets [count]: its own unless it is spoiled."""
    chosen = torch.randperm(count, generator=generator(seed, "shuffle"))[: round(share * count)]
    donors = torch.arange(count)
    donors[chosen] = chosen.roll(1)
    return donors
