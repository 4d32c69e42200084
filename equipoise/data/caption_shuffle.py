"""Wrong captions on purpose: a share of the training pairs of any source get one another's texts.

    [shuffle]
    share = 0.4
    level = "image"      # all captions of an image are passed on together; "caption": single captions
    file = ""            # or as a noise index of the field says (noise_index.py)

The pairs to be spoiled are drawn by `seed` and their texts handed round in a random circle, so that none keeps its own
and the share is exact; images stay where they are. By caption, one may come to another place of its own image, so the
share of truly wrong ones is a little less. Who was given whose texts is known (`truth` of each pair), so that what
finds wrong pairs can be judged.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from equipoise.data.caption_exchange import ExchangedCaptions, caption_counts
from equipoise.data.noise_index import read_index
from equipoise.data.remap import RemappedSource
from equipoise.data.rng import generator
from equipoise.data.source import Source
from equipoise.settings.bounds import SEED, within
from equipoise.types import UserError


@dataclass(frozen=True)
class Shuffle:
    share: float = 0.0  # of the training pairs
    seed: int = within(SEED, 0)  # draws them
    level: Literal["image", "caption"] = "image"  # all captions of an image travel together, or each by itself
    file: str = ""  # a noise index instead

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise UserError(f"share is {self.share}; give a share of pairs from 0 to 1")
        if self.file and self.share:
            raise UserError("share and file both say which captions are wrong; leave one out")

    def applied_to(self, source: Source) -> Source:
        """The source with some texts exchanged; the source itself where none are."""
        if self.file:
            counts = caption_counts(source)
            index = read_index(Path(self.file), counts)
            return _given(source, index.taken) if index.by_image else ExchangedCaptions(source, counts, index.taken)
        if self.share and self.level == "caption":
            counts = caption_counts(source)
            return ExchangedCaptions(source, counts, shuffled(int(counts.sum()), self.share, self.seed).numpy())
        return _given(source, shuffled(len(source), self.share, self.seed).numpy())


def _given(source: Source, donors: np.ndarray) -> Source:
    """The source with all captions of each record from another one [N]; the source itself where each has its own."""
    if np.array_equal(donors, np.arange(len(source))):
        return source
    return RemappedSource(source, range(len(source)), donors)


def shuffled(count: int, share: float, seed: int) -> Tensor:
    """For each of `count` pairs the number of the pair whose texts it gets [count]: its own unless it is spoiled."""
    chosen = torch.randperm(count, generator=generator(seed, "shuffle"))[: round(share * count)]
    donors = torch.arange(count)
    donors[chosen] = chosen.roll(1)
    return donors
