"""Some of the pairs of a source, numbered anew. What the source can do, its subset can do too."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from equipoise.data.source import Boxes, CroppingSource, FeatureSource, JudgedSource, Pair, Source
from equipoise.data.tokens import Tokens
from equipoise.types import Batch


def subset(source: Source, indices: Sequence[int]) -> Source:
    """The pairs of `source` with these numbers, in this order."""
    for kind, view in VIEWS:
        if isinstance(source, kind):
            return view(source, indices)
    return Subset(source, indices)


class Subset:
    def __init__(self, source: Source, indices: Sequence[int]):
        self.source, self.indices = source, list(indices)

    def __len__(self) -> int:
        return len(self.indices)

    def pair(self, index: int) -> Pair:
        return self.source.pair(self.indices[index])

    def images(self, indices: Sequence[int], size: int, device: torch.device | str = "cpu") -> Tensor:
        return self.source.images(self.theirs(indices), size, device)

    def theirs(self, indices: Sequence[int]) -> list[int]:
        """Our numbers as those of the source."""
        return [self.indices[index] for index in indices]


class JudgedSubset(Subset):
    source: JudgedSource

    def relevance(self, indices: Sequence[int], captions: Sequence[str]) -> np.ndarray:
        return self.source.relevance(self.theirs(indices), captions)


class CroppingSubset(Subset):
    source: CroppingSource

    @property
    def max_bad(self) -> float:
        return self.source.max_bad

    def crops(self, indices: Sequence[int], size: int, boxes: Boxes) -> Tensor:
        return self.source.crops(self.theirs(indices), size, boxes)


class FeatureSubset(Subset):
    source: FeatureSource

    @property
    def image_width(self) -> int:
        return self.source.image_width

    @property
    def text_width(self) -> int | None:
        return self.source.text_width

    def image_features(self, indices: Sequence[int]) -> tuple[Tensor, Tensor | None]:
        return self.source.image_features(self.theirs(indices))

    def text_features(self, indices: Sequence[int], per_image: int = 0) -> tuple[Tensor, Tensor | None, Tensor]:
        return self.source.text_features(self.theirs(indices), per_image)

    def batch(self, indices: Sequence[int], draws: Sequence[float], tokens: Tokens) -> Batch:
        batch = self.source.batch(self.theirs(indices), draws, tokens)
        return Batch(batch.images, batch.tokens, batch.mask, torch.as_tensor(indices), batch.side)


VIEWS = ((FeatureSource, FeatureSubset), (CroppingSource, CroppingSubset), (JudgedSource, JudgedSubset))
