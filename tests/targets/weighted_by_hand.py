"""Weighted losses of every target and form, read aloud: loops over rows, float64, plain probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence

Row = Sequence[float]
Matrix = list[list[float]]
BETA, ALPHA = 0.3, 0.2  # of the softened and of the smoothed target
BIAS = -10.0


def softmax(z: Row) -> list[float]:
    total = sum(math.exp(x) for x in z)
    return [math.exp(x) / total for x in z]


def target_of(name: str, i: int, matches: Sequence[bool], guide: Row) -> list[float]:
    """The share of every column in row i."""
    n, count = len(matches), sum(matches)
    if name == "smoothed":
        return [1 - ALPHA if j == i else ALPHA / (n - 1) for j in range(n)]
    if name == "softened":
        return [(1 - BETA) * (i == j) + BETA * p for j, p in enumerate(softmax(guide))]
    return [match / count for match in matches]


def kl(p: Row, q: Row) -> float:
    return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True) if a > 0)


def js(p: Row, q: Row) -> float:
    middle = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
    return (kl(p, middle) + kl(q, middle)) / 2


DIVERGENCES = {"kl": kl, "symmetric_kl": lambda p, q: (kl(p, q) + kl(q, p)) / 2, "js": js}


def cost(form: str, z: Row, p: Row, negatives: Sequence[int], guide: Row) -> float:
    """What one row costs: its logits, its target, the columns that do not match and the guide's scores."""
    q = softmax(z)
    if form == "cross_entropy":
        return -sum(a * math.log(b) for a, b in zip(p, q, strict=True))
    if form == "sigmoid":
        return sum(math.log1p(math.exp(x + BIAS)) - a * (x + BIAS) for a, x in zip(p, z, strict=True))
    if form == "complementary":
        return -sum((1 - a) * math.log(1 - b) for a, b in zip(p, q, strict=True))
    if form.startswith("negatives_"):
        apart = (softmax([scores[j] for j in negatives]) for scores in (guide, z))
        return DIVERGENCES[form.removeprefix("negatives_")](*apart)
    return DIVERGENCES[form](p, q)


def loss(form: str, target: str, z: Matrix, guides: tuple[Matrix, Matrix], keys: Row, weights: Row) -> float:
    """½ Σ_i w_i cost of row i / Σ w + ½ the same of columns; guides of rows and of columns, keys of who is alike."""
    total, n = 0.0, len(z)
    for lines, guide in zip((z, [list(x) for x in zip(*z, strict=True)]), guides, strict=True):
        for i in range(n):
            matches = [keys[i] == keys[j] if target == "duplicates" else i == j for j in range(n)]
            p = target_of(target, i, matches, guide[i])
            negatives = [j for j in range(n) if not matches[j]]
            scores = [0.0] * n if target == "smoothed" else guide[i]
            total += weights[i] * cost(form, lines[i], p, negatives, scores) / sum(weights) / 2
    return total
