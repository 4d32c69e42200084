"""BLEU: the share of a caption's n-grams that a reference has too, over all captions together.

Papineni et al. 2002, "BLEU: a Method for Automatic Evaluation of Machine Translation", §2.

    BLEU_N = B · (Π_{n=1..N} p_n)^{1/N}         p_n = Σ matches_n / Σ n-grams,   B = exp(1 - r/c) if c < r, else 1

A match counts as often as the reference that has most of it does. c: tokens of all captions; r: those of the references
closest in length to each, the shorter of two. As pycocoevalcap: 1e-15 is added to matches and 1e-9 to n-grams, so that
nothing is divided by zero. It is of a set: the mean over captions is another number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from equipoise.evaluation.captions.ngrams import LONGEST, Ngrams, Tokens, ngrams

TINY, SMALL = 1e-15, 1e-9


def bleu(references: Sequence[Sequence[Tokens]], candidates: Sequence[Tokens]) -> list[float]:
    """BLEU-1 to BLEU-4 of one caption per image, with any number of references."""
    length = sum(len(tokens) for tokens in candidates)
    wanted = sum(_closest_length(several, tokens) for several, tokens in zip(references, candidates, strict=True))
    ratio = (length + TINY) / (wanted + SMALL)
    brevity = math.exp(1 - 1 / ratio) if ratio < 1 else 1.0
    scores, product = [], 1.0
    for n in range(1, LONGEST + 1):
        pairs = zip(references, candidates, strict=True)
        matches = sum(_matches(several, tokens, n) for several, tokens in pairs)
        made = sum(max(0, len(tokens) - n + 1) for tokens in candidates)
        product *= (matches + TINY) / (made + SMALL)
        scores.append(brevity * product ** (1 / n))
    return scores


def _closest_length(references: Sequence[Tokens], tokens: Tokens) -> int:
    return min((abs(len(one) - len(tokens)), len(one)) for one in references)[1]


def _matches(references: Sequence[Tokens], tokens: Tokens, n: int) -> int:
    allowed = Ngrams()
    for one in references:
        allowed |= ngrams(one, n)
    return (ngrams(tokens, n) & allowed).total()
