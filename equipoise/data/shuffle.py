"""Wrong captions on purpose: a share of the training pairs of any source get one another's texts.

    [shuffle]
    share = 0.4

The pairs to be spoiled are drawn by `seed` and their texts handed round in a random circle, so that none keeps its own
and the share is exact; images stay where they are. Who was given whose texts is known (`donors`, and `truth` of each
pair), so that what finds wrong pairs can be judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import torch
from torch import Tensor

from equipoise.data.order import generator
from equipoise.data.source import BatchSource, Boxes, CroppingSource, FeatureSource, Pair, Source
from equipoise.data.tokens import Tokens
from equipoise.types import Batch, UserError

S = TypeVar("S", bound=Source)


@dataclass(frozen=True)
class Shuffle:
    share: float = 0.0  # of the training pairs
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise UserError(f"share is {self.share}; give a share of pairs from 0 to 1")

    def applied_to(self, source: Source) -> Source:
        """The source with some texts exchanged; the source itself where none are."""
        donors = shuffled(len(source), self.share, self.seed)
        if torch.equal(donors, torch.arange(len(source))):
            return source
        if isinstance(source, FeatureSource):
            return ShuffledFeatures(source, donors)
        if isinstance(source, BatchSource):
            return ShuffledBatches(source, donors)
        if isinstance(source, CroppingSource):
            return ShuffledCrops(source, donors)
        return Shuffled(source, donors)


def shuffled(count: int, share: float, seed: int) -> Tensor:
    """For each of `count` pairs the number of the pair whose texts it gets [count]: its own unless it is spoiled."""
    chosen = torch.randperm(count, generator=generator(seed, "shuffle"))[: round(share * count)]
    donors = torch.arange(count)
    donors[chosen] = chosen.roll(1)
    return donors


class Shuffled(Generic[S]):
    """A source whose pair `index` has the texts of pair `donors[index]`."""

    def __init__(self, source: S, donors: Tensor):
        self.source, self.donors = source, donors

    def __len__(self) -> int:
        return len(self.source)

    def pair(self, index: int) -> Pair:
        own = self.source.pair(index)
        other = self.source.pair(int(self.donors[index]))
        if own.key == other.key:
            return own
        truth = {**own.truth, "is_clean": False, "noise": "shuffled", "other": other.key}
        return replace(own, captions=other.captions, truth=truth)

    def images(self, indices: Sequence[int], size: int, device: torch.device | str = "cpu") -> Tensor:
        return self.source.images(indices, size, device)


class ShuffledCrops(Shuffled[CroppingSource]):
    @property
    def max_bad(self) -> float:
        return self.source.max_bad

    def crops(self, indices: Sequence[int], size: int, boxes: Boxes) -> Tensor:
        return self.source.crops(indices, size, boxes)


B = TypeVar("B", bound=BatchSource)


class ShuffledBatches(Shuffled[B]):
    def batch(self, indices: Sequence[int], draws: Sequence[float], tokens: Tokens) -> Batch:
        own = self.source.batch(indices, draws, tokens)
        other = self.source.batch(self.donors[torch.as_tensor(indices)].tolist(), draws, tokens)
        return replace(own, tokens=other.tokens, mask=other.mask)


class ShuffledFeatures(ShuffledBatches[FeatureSource]):
    @property
    def image_width(self) -> int:
        return self.source.image_width

    @property
    def text_width(self) -> int | None:
        return self.source.text_width

    def image_features(self, indices: Sequence[int]) -> tuple[Tensor, Tensor | None]:
        return self.source.image_features(indices)

    def text_features(self, indices: Sequence[int], per_image: int = 0) -> tuple[Tensor, Tensor | None, Tensor]:
        return self.source.text_features(self.donors[torch.as_tensor(indices)].tolist(), per_image)
