"""What `Model.explain` returns: how relevant each place of a picture and each word of a text is for their similarity.

Relevance is a share: never negative, and the shares of all places sum to 1, as do those of all words, unless nothing
is relevant, where all are 0. Shares of one method are no shares of another: compare places, not methods.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Word:
    text: str
    start: int  # where it stands in the text, in characters
    stop: int
    relevance: float


@dataclass(frozen=True)
class Explanation:
    method: str
    similarity: float  # of picture and text; of the part alone, where one was asked for
    part: tuple[int, ...]  # see `analysis/explain/score.py`; empty: the similarity as a whole
    text: str
    places: np.ndarray  # [S, S] relevance of the picture's places, rows from the top
    words: tuple[Word, ...]

    def as_table(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return {
            "method": self.method,
            "similarity": self.similarity,
            "part": list(self.part),
            "text": self.text,
            "places": self.places.tolist(),
            "words": [vars(word) for word in self.words],
        }
