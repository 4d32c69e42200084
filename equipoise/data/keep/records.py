"""The records of a source as a keep file names them: by key, and by a fingerprint of each of their texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from equipoise.data.side_data import fingerprints
from equipoise.data.source import Source

CHUNK = 4096  # records whose texts are counted at once


def records(source: Source) -> Iterator[tuple[str, np.ndarray]]:
    """The key of every record and a whole number for each of its texts [T], equal where the texts are.

    Features without words are named by their owner, so that texts that were handed on (`[shuffle]`) are told apart.
    """
    counts = _text_counts(source)
    for index in range(len(source)):
        pair = source.pair(index)
        owner = pair.truth.get("other") or pair.key
        names = pair.captions or [
            f"text {number} of {owner}" for number in range(0 if counts is None else counts[index])
        ]
        yield pair.key, fingerprints(names).numpy().astype(np.int64)


def _text_counts(source: Any) -> np.ndarray | None:
    """Texts of each record [N] of a source that holds features of them."""
    if getattr(source, "text_width", None) is None:
        return None
    counts = np.zeros(len(source), dtype=np.int64)
    for start in range(0, len(source), CHUNK):
        chunk = range(start, min(start + CHUNK, len(source)))
        counts[start : chunk.stop] = np.bincount(source.text_features(chunk)[2].numpy(), minlength=len(chunk))
    return counts
