"""A source with some of its captions: an image keeps those that are kept, and leaves with the last of them.

A caption may be swapped for one of another record, which then stands in its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from equipoise.data.keep.weights import pair_weights
from equipoise.data.record_numbers import record_numbers
from equipoise.data.remap import RemappedSource, subset
from equipoise.data.source import Pair, Source, is_judged
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.data.truth import CLEAN, PER_CAPTION, TRUE, per_caption
from equipoise.types import Batch, UserError

IMAGES = (
    "max_bad", "crops", "relevance", "class_names", "templates", "names_classes", "picture_digest",
    "has_regions", "regions", "tags",
)  # fmt: skip
FEATURES = ("image_width", "text_width", "image_features")
TEXTS = ("open", "batch", "text_features")  # what hands out texts; all else is the source's own


class KeptSource:
    """The records of `source` of which a caption is kept, with these captions alone; it offers what `source` offers."""

    def __init__(
        self,
        source: Source,
        counts: np.ndarray,
        keep: np.ndarray,
        weights: np.ndarray | None = None,
        swaps: Mapping[int, int] | None = None,
    ):
        """`counts` [N] captions of each record; `keep` [ΣN] bool and `weights` [ΣN], in the order of the records;
        `swaps` of caption numbers in that order: the one that takes the place of another."""
        owners, places = _owners(counts)
        texts = np.arange(len(owners))
        for row, other in (swaps or {}).items():
            texts[row] = other
        records, starts = np.unique(owners[keep], return_index=True)
        self.records = record_numbers(records)
        if not len(self.records):
            raise UserError("no caption is kept, so there is nothing to train on; lower the threshold")
        self.whole: Any = source
        self.source: Any = subset(source, self.records)
        self.counts = record_numbers(counts)  # captions of each record of the whole
        texts = texts[keep]  # of each caption kept: its record, and its number there
        self.origins, self.kept = record_numbers(owners[texts]), record_numbers(places[texts])
        self.starts = record_numbers(np.append(starts, len(self.kept)))
        self.weights = None if weights is None else weights[keep].astype(np.float32)
        self.caption_weights = None if weights is None else self._caption_weights
        self.selection: dict[str, Any] = {}  # how captions were chosen, where that is known
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

    def captions_of(self, index: int) -> slice:
        """The places of the captions that a record keeps, among all that are kept."""
        return slice(int(self.starts[index]), int(self.starts[index + 1]))

    def _caption_weights(self, index: int) -> np.ndarray:
        """Weights of the captions that a record keeps, in their order."""
        assert self.weights is not None
        return self.weights[self.captions_of(index)]

    def _with_kept(self, pair: Pair, index: int) -> Pair:
        """The pair with the captions it keeps; none where the source holds features of texts without their words."""
        kept, own = self.captions_of(index), int(self.records[index])
        places = list(zip(self.origins[kept].tolist(), self.kept[kept].tolist(), strict=True)) if pair.captions else []
        givers = {record: pair if record == own else self.whole.pair(record) for record, _ in places}
        captions = tuple(givers[record].captions[number] for record, number in places)
        truth = dict(pair.truth)
        for name in PER_CAPTION:
            if self._per_caption(pair, own, name) is not None:
                known = [(self._per_caption(givers[record], record, name), number) for record, number in places]
                truth[name] = [None if values is None else values[number] for values, number in known]
        if places and set(givers) != {own}:
            truth = self._truth_of_swapped(truth, captions, own)
        return replace(pair, captions=captions, truth=truth)

    def _per_caption(self, pair: Pair, record: int, name: str) -> list[Any] | None:
        """What the truth of a record of the whole says of each of its captions."""
        return per_caption(pair.truth, name, int(self.counts[record]))

    def _truth_of_swapped(self, truth: dict[str, Any], captions: Sequence[str], own: int) -> dict[str, Any]:
        """What is known of a pair with captions of others: judged anew, or no longer known."""
        if not is_judged(self.whole):
            return {name: value for name, value in truth.items() if name not in (TRUE, CLEAN)}
        true = self.whole.relevance([own], captions)[0].tolist()
        return {**truth, TRUE: true, CLEAN: all(true)}

    def _open(self, index: int) -> Any:
        record = self.source.open(index)
        return replace(record, pair=self._with_kept(record.pair, index))

    def _batch(self, indices: Sequence[int], draws: Sequence[float], tokens: CaptionTokenizer) -> Batch:
        """The source's own batch: a draw among the captions kept becomes the draw that picks the same one among all."""
        drawn = [self._drawn(index, draw) for index, draw in zip(indices, draws, strict=True)]
        origins = self.origins[drawn]
        inner = ((self.kept[drawn].astype(np.int64) + 0.5) / self.counts[origins]).tolist()
        images = self.records[list(indices)]
        batch = RemappedSource(self.whole, images, origins)._batch(range(len(drawn)), inner, tokens)
        side = {**batch.side, **pair_weights(self, indices, draws)}
        return replace(batch, index=torch.as_tensor(indices), side=side)

    def _drawn(self, index: int, draw: float) -> int:
        """The place of the caption that a draw picks, among all that are kept."""
        kept = self.captions_of(index)
        return kept.start + int(draw * (kept.stop - kept.start))

    def _text_features(self, indices: Sequence[int], per_image: int = 0) -> tuple[Tensor, Tensor | None, Tensor]:
        """The first `per_image` (0: all) of the texts that each image keeps."""
        each = [np.arange(kept.start, kept.stop)[: per_image or None] for kept in map(self.captions_of, indices)]
        chosen = np.concatenate([np.zeros(0, dtype=np.int64), *each])
        givers, place = np.unique(self.origins[chosen], return_inverse=True)
        values, mask, _ = self.whole.text_features(givers.tolist())
        counts = self.counts[givers].astype(np.int64)
        rows = torch.from_numpy((counts.cumsum() - counts)[place] + self.kept[chosen])
        owners = torch.from_numpy(np.repeat(np.arange(len(each)), list(map(len, each))))
        return values[rows], None if mask is None else mask[rows], owners


def _owners(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The record of each caption, and the number that the caption has in it [ΣN]."""
    owners = np.repeat(np.arange(len(counts)), counts)
    return owners, np.arange(len(owners)) - np.repeat(counts.cumsum() - counts, counts)
