"""The records of a source as a keep file names them: by key, and by a fingerprint of each of their texts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from equipoise.data.caption_exchange import text_feature_counts
from equipoise.data.side_data import fingerprints
from equipoise.data.source import Source
from equipoise.data.truth import NAMES, OTHER, per_caption


def records(source: Source) -> Iterator[tuple[str, np.ndarray]]:
    """The key of every record and a whole number for each of its texts [T], equal where the texts are.

    Features without words are named by their owner, so that texts that were handed on (`[shuffle]`) are told apart.
    """
    counts = text_feature_counts(source)
    for index in range(len(source)):
        pair = source.pair(index)
        owner = pair.truth.get(OTHER) or pair.key
        count = 0 if counts is None else counts[index]
        told = per_caption(pair.truth, NAMES, count)
        names = pair.captions or told or [f"text {number} of {owner}" for number in range(count)]
        yield pair.key, fingerprints(names).numpy().astype(np.int64)
