"""The bound of every method that drops pairs: a run on the captions that are truly right, where the data knows them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from equipoise.config import Loaded, Run
from equipoise.data.caption_exchange import caption_counts
from equipoise.data.caption_shuffle import Shuffle
from equipoise.data.keep.source import KeptSource
from equipoise.data.source import Source
from equipoise.data.truth import wrong_captions


@dataclass(frozen=True)
class RightPairs:
    """The data of a run of which the wrong captions are known, without them."""

    run: Run

    def build(self, split: str) -> Source:
        if split != "train":
            return self.run.data.build(split)
        source = self.run.shuffle.applied_to(self.run.data.build(split))
        return KeptSource(source, caption_counts(source), right_captions(source))


def right_captions(source: Source) -> np.ndarray:
    """Which captions of the source are truly right [M]."""
    truths = [source.pair(index).truth for index in range(len(source))]
    right = [
        ~wrong_captions(truth, count) for truth, count in zip(truths, caption_counts(source).tolist(), strict=True)
    ]
    return np.concatenate(right)


def with_right_pairs(loaded: Loaded) -> Loaded:
    data = RightPairs(loaded.run)
    return Loaded(replace(loaded.run, data=data, shuffle=Shuffle()), loaded.table)  # type: ignore[arg-type]
