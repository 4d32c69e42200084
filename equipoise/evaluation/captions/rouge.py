"""ROUGE-L: the longest common subsequence of a caption and its references.

Lin 2004, "ROUGE: A Package for Automatic Evaluation of Summaries", §3.

    F = (1 + β²) P R / (R + β² P)        P = max over references of LCS / tokens of the caption
                                          R = max over references of LCS / tokens of the reference        β = 1.2

P and R may come from different references, as in pycocoevalcap, where a caption of no tokens also counts as one empty
token. The score is the mean over images.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from equipoise.evaluation.captions.ngrams import Tokens

BETA = 1.2


def rouge_l(references: Sequence[Sequence[Tokens]], candidates: Sequence[Tokens]) -> float:
    """ROUGE-L of one caption per image, with any number of references."""
    scores = [_of_image(several, tokens) for several, tokens in zip(references, candidates, strict=True)]
    return sum(scores) / len(scores)


def _of_image(references: Sequence[Tokens], tokens: Tokens) -> float:
    tokens = tokens or [""]
    common = [(_common_length(one or [""], tokens), len(one or [""])) for one in references]
    precision = max(length / len(tokens) for length, _ in common)
    recall = max(length / total for length, total in common)
    if not precision:
        return 0.0
    return (1 + BETA**2) * precision * recall / (recall + BETA**2 * precision)


def _common_length(first: Tokens, second: Tokens) -> int:
    """The length of the longest common subsequence, one row of the table at a time."""
    row = [0] * (len(second) + 1)
    for token in first:
        above, row = row, [0]
        for other, (diagonal, up) in zip(second, pairwise(above), strict=True):
            row.append(diagonal + 1 if token == other else max(up, row[-1]))
    return row[-1]
