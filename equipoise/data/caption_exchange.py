"""A source in which single captions change places, whoever's they are; the images stay where they are.

Place p, of all places of captions in the order of the records, is taken by the caption that was at place taken[p].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from equipoise.data.remap import TEXT_SIDE
from equipoise.data.source import Pair, Record, Source
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.data.truth import CLEAN, NAMES, NOISE, TRUE
from equipoise.types import Batch

TEXTS = ("open", "batch", "text_features")  # what hands out texts; all else is the source's own
CHUNK = 4096  # records whose texts are counted at once


class ExchangedCaptions:
    """`source` with its captions at other places; it offers what `source` offers."""

    def __init__(self, source: Source, counts: np.ndarray, taken: np.ndarray):
        """`counts` [N] captions of each record, `taken` [ΣN] a permutation of their places."""
        self.source = cast(Any, source)
        self.counts, self.taken = counts, taken
        self.starts = np.append(0, counts.cumsum())
        self.owners = np.repeat(np.arange(len(counts)), counts)
        for name in TEXTS:
            if getattr(source, name, None) is not None:
                setattr(self, name, getattr(self, f"_{name}"))

    def __getattr__(self, name: str) -> Any:
        if name == "source" or name in TEXTS:
            raise AttributeError(name)  # `source` while a copy is made; the others are set where there are any
        return getattr(self.source, name)

    def __len__(self) -> int:
        return len(self.counts)

    def pair(self, index: int) -> Pair:
        return self._with_captions(self.source.pair(index), index)

    def images(self, indices: Sequence[int], size: int, device: torch.device | str = "cpu") -> Tensor:
        return self.source.images(indices, size, device)

    def origins(self, index: int) -> list[tuple[int, int]]:
        """The record and the number there of each caption that record `index` has now."""
        places = self.taken[self.starts[index] : self.starts[index + 1]]
        return [(int(self.owners[place]), int(place - self.starts[self.owners[place]])) for place in places]

    def _with_captions(self, own: Pair, index: int) -> Pair:
        origins = self.origins(index)
        if all(origin == (index, number) for number, origin in enumerate(origins)):
            return own
        donors = {donor: self.source.pair(donor) for donor, _ in origins}
        captions = tuple(donors[donor].captions[number] for donor, number in origins) if own.captions else ()
        true = [donor == index for donor, _ in origins]
        names = [f"text {number} of {donors[donor].key}" for donor, number in origins]
        truth = {**own.truth, CLEAN: all(true), TRUE: true, NOISE: "shuffled", NAMES: names}
        return replace(own, captions=captions, truth=truth)

    def _open(self, index: int) -> Record:
        record = self.source.open(index)
        return replace(record, pair=self._with_captions(record.pair, index))

    def _batch(self, indices: Sequence[int], draws: Sequence[float], tokens: CaptionTokenizer) -> Batch:
        drawn = [
            self.origins(index)[int(draw * self.counts[index])] for index, draw in zip(indices, draws, strict=True)
        ]
        middles = [(number + 0.5) / int(self.counts[donor]) for donor, number in drawn]
        batch = self.source.batch(indices, draws, tokens)
        other = self.source.batch([donor for donor, _ in drawn], middles, tokens)
        side = {**batch.side, **{name: other.side[name] for name in TEXT_SIDE if name in other.side}}
        return replace(batch, tokens=other.tokens, mask=other.mask, side=side)

    def _text_features(self, indices: Sequence[int], per_image: int = 0) -> tuple[Tensor, Tensor | None, Tensor]:
        origins = [self.origins(index) for index in indices]
        chosen = [own[:per_image] if per_image else own for own in origins]
        donors = sorted({donor for own in chosen for donor, _ in own})
        values, mask, _ = self.source.text_features(donors)
        first = dict(zip(donors, np.append(0, self.counts[donors].cumsum()), strict=False))
        rows = torch.tensor([int(first[donor]) + number for own in chosen for donor, number in own], dtype=torch.long)
        owners = torch.repeat_interleave(torch.tensor([len(own) for own in chosen], dtype=torch.long))
        return values[rows], None if mask is None else mask[rows], owners


def caption_counts(source: Source) -> np.ndarray:
    """Captions of each record [N], or texts where the source holds features of them."""
    counts = text_feature_counts(source)
    return counts if counts is not None else np.array([len(source.pair(i).captions) for i in range(len(source))])


def text_feature_counts(source: Any) -> np.ndarray | None:
    """Texts of each record [N] of a source that holds features of them."""
    if getattr(source, "text_width", None) is None:
        return None
    counts = np.zeros(len(source), dtype=np.int64)
    for start in range(0, len(source), CHUNK):
        chunk = range(start, min(start + CHUNK, len(source)))
        counts[start : chunk.stop] = np.bincount(source.text_features(chunk)[2].numpy(), minlength=len(chunk))
    return counts
