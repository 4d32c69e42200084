"""Runs of words, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

LONGEST = 4
Tokens = Sequence[str]
Ngrams = Counter[tuple[str, ...]]


def ngrams(tokens: Tokens, n: int) -> Ngrams:
    """How often each run of n tokens occurs."""
    return Counter(zip(*(tokens[start:] for start in range(n)), strict=False))
