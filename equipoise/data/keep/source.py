"""A source with some of its captions: an image keeps those that are kept, and leaves with the last of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from equipoise.data.caption_exchange import NAMES
from equipoise.data.keep.weights import pair_weights
from equipoise.data.remap import subset
from equipoise.data.source import Pair, Source
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.types import Batch, UserError

IMAGES = ("max_bad", "crops", "relevance", "class_names", "templates", "has_regions", "regions", "tags")
FEATURES = ("image_width", "text_width", "image_features")
PER_CAPTION = ("captions_true", "details", NAMES)  # in a pair's truth
TEXTS = ("open", "batch", "text_features")  # what hands out texts; all else is the source's own


class KeptSource:
    """The records of `source` of which a caption is kept, with these captions alone; it offers what `source` offers."""

    def __init__(self, source: Source, counts: np.ndarray, keep: np.ndarray, weights: np.ndarray | None = None):
        """`counts` [N] captions of each record; `keep` [ΣN] bool and `weights` [ΣN], in the order of the records."""
        owners, places = _owners(counts)
        self.records, starts = np.unique(owners[keep], return_index=True)
        if not len(self.records):
            raise UserError("no caption is kept, so there is nothing to train on; lower the threshold")
        self.source: Any = subset(source, self.records.tolist())
        self.counts, self.kept = counts[self.records], places[keep]  # captions before; numbers of those kept
        self.starts = np.append(starts, len(self.kept))
        self.weights = None if weights is None else weights[keep]
        self.caption_weights = None if weights is None else self._caption_weights
        for name in (*IMAGES, *FEATURES):
            if hasattr(self.source, name):
                setattr(self, name, getattr(self.source, name))
        for name in TEXTS:
            if getattr(self.source, name, None) is not None:
                setattr(self, name, getattr(self, f"_{name}"))

    def __len__(self) -> int:
        return len(self.records)

    def pair(self, index: int) -> Pair:
        return self._with_kept(self.source.pair(index), index)

    def images(self, indices: Sequence[int], size: int, device: torch.device | str = "cpu") -> Tensor:
        return self.source.images(indices, size, device)

    def captions_of(self, index: int) -> np.ndarray:
        """The numbers of the captions that a record keeps."""
        return self.kept[self.starts[index] : self.starts[index + 1]]

    def _caption_weights(self, index: int) -> np.ndarray:
        """Weights of the captions that a record keeps, in their order."""
        assert self.weights is not None
        return self.weights[self.starts[index] : self.starts[index + 1]]

    def _with_kept(self, pair: Pair, index: int) -> Pair:
        """The pair with the captions it keeps; none where the source holds features of texts without their words."""
        numbers = self.captions_of(index).tolist() if pair.captions else []
        captions = tuple(pair.captions[number] for number in numbers)
        per_caption = {name: [values[n] for n in numbers] for name in PER_CAPTION if (values := pair.truth.get(name))}
        return replace(pair, captions=captions, truth={**pair.truth, **per_caption})

    def _open(self, index: int) -> Any:
        record = self.source.open(index)
        return replace(record, pair=self._with_kept(record.pair, index))

    def _batch(self, indices: Sequence[int], draws: Sequence[float], tokens: CaptionTokenizer) -> Batch:
        """The source's own batch: a draw among the captions kept becomes the draw that picks the same one among all."""
        batch = self.source.batch(indices, list(map(self._draw, indices, draws)), tokens)
        side = {**batch.side, **pair_weights(self, indices, draws)}
        return replace(batch, index=torch.as_tensor(indices), side=side)

    def _draw(self, index: int, draw: float) -> float:
        kept = self.captions_of(index)
        return (int(kept[int(draw * len(kept))]) + 0.5) / int(self.counts[index])

    def _text_features(self, indices: Sequence[int], per_image: int = 0) -> tuple[Tensor, Tensor | None, Tensor]:
        """The first `per_image` (0: all) of the texts that each image keeps."""
        values, mask, owners = self.source.text_features(indices)
        chosen, start = [], 0
        for index in indices:
            kept = self.captions_of(index)
            chosen.append(start + (kept[:per_image] if per_image else kept))
            start += int(self.counts[index])
        rows = torch.from_numpy(np.concatenate(chosen)) if chosen else torch.zeros(0, dtype=torch.long)
        return values[rows], None if mask is None else mask[rows], owners[rows]


def _owners(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The record of each caption, and the number that the caption has in it [ΣN]."""
    owners = np.repeat(np.arange(len(counts)), counts)
    return owners, np.arange(len(owners)) - np.repeat(counts.cumsum() - counts, counts)
