"""A source under other numbers: some of its pairs, in another order, or images with the texts of other pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from equipoise.data.record_numbers import record_numbers
from equipoise.data.source import (
    Pair,
    Record,
    Source,
    can_crop,
    has_digests,
    has_features,
    has_regions,
    is_judged,
    is_labelled,
    makes_batches,
    names_classes,
)
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.data.truth import CLEAN, DETAILS, NOISE, OTHER, TRUE, per_caption
from equipoise.types import Batch

TEXT_SIDE = ("caption", "text_vectors")  # side data that belongs to the texts, and goes with them


def subset(source: Source, indices: Sequence[int] | np.ndarray) -> RemappedSource:
    """The pairs of `source` with these numbers, in this order."""
    return RemappedSource(source, indices, indices)


class RemappedSource:
    """A source whose pair i has the image of pair images[i] of `source` and the texts of pair texts[i].

    It offers what `source` offers (`data/source.py`); the members of all else are None.
    """

    def __init__(self, source: Source, images: Sequence[int] | np.ndarray, texts: Sequence[int] | np.ndarray):
        self.source = cast(Any, source)
        self.image_numbers = record_numbers(images)
        self.text_numbers = self.image_numbers if texts is images else record_numbers(texts)
        self.max_bad = source.max_bad if can_crop(source) else None
        self.open = self._open if can_crop(source) else None
        self.relevance = self._relevance if is_judged(source) else None
        self.class_names = source.class_names if is_labelled(source) else None
        self.templates = source.templates if is_labelled(source) else None
        self.names_classes = names_classes(source)
        self.picture_digest = self._picture_digest if has_digests(source) else None
        self.has_regions = has_regions(source)
        self.batch = self._batch if makes_batches(source) else None
        self.image_width = source.image_width if has_features(source) else None
        self.text_width = source.text_width if has_features(source) else None
        self.image_features = self._image_features if has_features(source) else None
        self.text_features = self._text_features if has_features(source) else None

    def __len__(self) -> int:
        return len(self.image_numbers)

    def pair(self, index: int) -> Pair:
        return self._with_texts(self.source.pair(int(self.image_numbers[index])), index)

    def images(self, indices: Sequence[int], size: int, device: torch.device | str = "cpu") -> Tensor:
        return self.source.images(self._images(indices), size, device)

    def regions(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        return self.source.regions(self._images(indices))

    def tags(self, index: int) -> tuple[str, ...]:
        return self.source.tags(int(self.image_numbers[index]))

    def _with_texts(self, own: Pair, index: int) -> Pair:
        """The image's own pair with the texts that it has here."""
        if self.image_numbers[index] == self.text_numbers[index]:
            return own
        other = self.source.pair(int(self.text_numbers[index]))
        truth = {**own.truth, CLEAN: False, NOISE: "shuffled", OTHER: other.key}
        if TRUE in truth:  # said of the captions that it had; a stranger's count as wrong
            truth[TRUE] = [False] * len(other.captions)
        if per_caption(own.truth, DETAILS, len(own.captions)) is not None:
            truth[DETAILS] = per_caption(other.truth, DETAILS, len(other.captions))
        return replace(own, captions=other.captions, truth=truth)

    def _open(self, index: int) -> Record:
        record = self.source.open(int(self.image_numbers[index]))
        return replace(record, pair=self._with_texts(record.pair, index))

    def _relevance(self, indices: Sequence[int], captions: Sequence[str]) -> np.ndarray:
        return self.source.relevance(self._images(indices), captions)

    def _picture_digest(self, index: int) -> bytes:
        return self.source.picture_digest(int(self.image_numbers[index]))

    def _batch(self, indices: Sequence[int], draws: Sequence[float], tokens: CaptionTokenizer) -> Batch:
        batch = self.source.batch(self._images(indices), draws, tokens)
        if self._images(indices) != self._texts(indices):
            other = self.source.batch(self._texts(indices), draws, tokens)
            texts = {name: other.side[name] for name in TEXT_SIDE if name in other.side}
            batch = replace(batch, tokens=other.tokens, mask=other.mask, side={**batch.side, **texts})
        return replace(batch, index=torch.as_tensor(indices))

    def _image_features(self, indices: Sequence[int]) -> tuple[Tensor, Tensor | None]:
        return self.source.image_features(self._images(indices))

    def _text_features(self, indices: Sequence[int], per_image: int = 0) -> tuple[Tensor, Tensor | None, Tensor]:
        return self.source.text_features(self._texts(indices), per_image)

    def _images(self, indices: Sequence[int]) -> list[int]:
        return self.image_numbers[np.asarray(indices, dtype=np.int64)].tolist()

    def _texts(self, indices: Sequence[int]) -> list[int]:
        return self.text_numbers[np.asarray(indices, dtype=np.int64)].tolist()
