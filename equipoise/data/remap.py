"""A source seen in another way: some of its pairs, in another order, or images with the texts of others.

What the source can do, the view can do too: it is put together from one small class for each thing a source may offer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from equipoise.data.source import (
    BatchSource,
    Boxes,
    CroppingSource,
    FeatureSource,
    JudgedSource,
    LabelledSource,
    Pair,
    RegionSource,
    Source,
)
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.types import Batch

TEXT_SIDE = ("caption", "text_vectors")  # side data that belongs to the texts, and goes with them


def subset(source: Source, indices: Sequence[int]) -> Source:
    """The pairs of `source` with these numbers, in this order."""
    return view(source, indices, indices)


def view(source: Source, images: Sequence[int], texts: Sequence[int]) -> Source:
    """A source whose pair i has the image of pair images[i] and the texts of pair texts[i]."""
    abilities = tuple(ability for offers, ability in ABILITIES if isinstance(source, offers))
    return type("RemappedSource", (*abilities, RemappedSource), {})(source, list(images), list(texts))


class RemappedSource:
    source: Any

    def __init__(self, source: Source, images: list[int], texts: list[int]):
        self.source, self.image_numbers, self.text_numbers = source, images, texts

    def __reduce__(self) -> tuple[Any, ...]:  # for processes that load data: a class made on the way has no name there
        return view, (self.source, self.image_numbers, self.text_numbers)

    def __len__(self) -> int:
        return len(self.image_numbers)

    def pair(self, index: int) -> Pair:
        own = self.source.pair(self.image_numbers[index])
        if self.image_numbers[index] == self.text_numbers[index]:
            return own
        other = self.source.pair(self.text_numbers[index])
        truth = {**own.truth, "is_clean": False, "noise": "shuffled", "other": other.key}
        return replace(own, captions=other.captions, truth=truth)

    def images(self, indices: Sequence[int], size: int, device: torch.device | str = "cpu") -> Tensor:
        return self.source.images(self._images(indices), size, device)

    def _images(self, indices: Sequence[int]) -> list[int]:
        return [self.image_numbers[index] for index in indices]

    def _texts(self, indices: Sequence[int]) -> list[int]:
        return [self.text_numbers[index] for index in indices]


class Crops(RemappedSource):
    @property
    def max_bad(self) -> float:
        return self.source.max_bad

    def crops(self, indices: Sequence[int], size: int, boxes: Boxes) -> Tensor:
        return self.source.crops(self._images(indices), size, boxes)


class _Judged(RemappedSource):
    def relevance(self, indices: Sequence[int], captions: Sequence[str]) -> np.ndarray:
        return self.source.relevance(self._images(indices), captions)


class _Labelled(RemappedSource):
    @property
    def class_names(self) -> tuple[str, ...]:
        return self.source.class_names

    @property
    def templates(self) -> tuple[str, ...]:
        return self.source.templates


class _Regions(RemappedSource):
    @property
    def has_regions(self) -> bool:
        return self.source.has_regions

    def regions(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        return self.source.regions(self._images(indices))

    def tags(self, index: int) -> tuple[str, ...]:
        return self.source.tags(self.image_numbers[index])


class _Batches(RemappedSource):
    def batch(self, indices: Sequence[int], draws: Sequence[float], tokens: CaptionTokenizer) -> Batch:
        batch = self.source.batch(self._images(indices), draws, tokens)
        if self._images(indices) != self._texts(indices):
            other = self.source.batch(self._texts(indices), draws, tokens)
            texts = {name: other.side[name] for name in TEXT_SIDE if name in other.side}
            batch = replace(batch, tokens=other.tokens, mask=other.mask, side={**batch.side, **texts})
        return replace(batch, index=torch.as_tensor(indices))


class _Features(RemappedSource):
    @property
    def image_width(self) -> int:
        return self.source.image_width

    @property
    def text_width(self) -> int | None:
        return self.source.text_width

    def image_features(self, indices: Sequence[int]) -> tuple[Tensor, Tensor | None]:
        return self.source.image_features(self._images(indices))

    def text_features(self, indices: Sequence[int], per_image: int = 0) -> tuple[Tensor, Tensor | None, Tensor]:
        return self.source.text_features(self._texts(indices), per_image)


ABILITIES: tuple[tuple[Any, type[RemappedSource]], ...] = (
    (CroppingSource, Crops),
    (JudgedSource, _Judged),
    (LabelledSource, _Labelled),
    (RegionSource, _Regions),
    (BatchSource, _Batches),
    (FeatureSource, _Features),
)
