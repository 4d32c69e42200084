"""CIDEr-D: n-grams of a caption and of its references, weighted by how few images have them.

Vedantam et al. 2015, "CIDEr: Consensus-based Image Description Evaluation", Eq. 1-3 and §5 (CIDEr-D).

    g_k = count_k · (ln I - ln max(1, d_k))            d_k of I images have n-gram k in some reference
    CIDEr-D = 10 · mean over images, n = 1..4 and references of
              exp(-(l - l')² / 2σ²) · Σ_k min(g_k, g'_k) g'_k / (‖g‖ ‖g'‖)                              σ = 6

g of the caption, g' of a reference. As in pycocoevalcap, l and l' count bigrams, one less than tokens. Frequencies are
of the references that are given, so scores of different sets, or of parts of one, cannot be compared; one image alone
would score 0.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from equipoise.evaluation.captions.ngrams import LONGEST, Ngrams, Tokens, ngrams
from equipoise.types import UserError

SIGMA = 6.0
Weights = Mapping[tuple[str, ...], float]


def cider_d(references: Sequence[Sequence[Tokens]], candidates: Sequence[Tokens]) -> float:
    """CIDEr-D of one caption per image, with any number of references."""
    if len(candidates) < 2:
        raise UserError("CIDEr-D weighs words by how few images have them; give captions of at least two images")
    total = 0.0
    for n in range(1, LONGEST + 1):
        counted = [[ngrams(one, n) for one in several] for several in references]
        rarity = _Rarity(counted)
        for several, made, tokens in zip(references, counted, candidates, strict=True):
            own = ngrams(tokens, n)
            scores = (
                rarity.similarity(own, other) * _as_long(tokens, one) for other, one in zip(made, several, strict=True)
            )
            total += sum(scores) / len(several)
    return 10 * total / (LONGEST * len(candidates))


class _Rarity:
    def __init__(self, counted: Sequence[Sequence[Ngrams]]):
        self.images = math.log(len(counted))
        self.seen = Counter(ngram for several in counted for ngram in set().union(*several))

    def weights(self, counts: Ngrams) -> Weights:
        return {k: count * (self.images - math.log(max(1, self.seen[k]))) for k, count in counts.items()}

    def similarity(self, candidate: Ngrams, reference: Ngrams) -> float:
        own, other = self.weights(candidate), self.weights(reference)
        product = sum(min(weight, other[k]) * other[k] for k, weight in own.items() if k in other)
        norms = math.hypot(*own.values()) * math.hypot(*other.values())
        return product / norms if norms else product


def _as_long(tokens: Tokens, others: Tokens) -> float:
    """1 where both have as many bigrams, less where they have not."""
    apart = max(0, len(tokens) - 1) - max(0, len(others) - 1)
    return math.exp(-(apart**2) / (2 * SIGMA**2))
