"""SoftCLIP read aloud from the paper: loops, float64, plain probabilities. Numbers of equations are the paper's."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

Matrix = list[list[float]]


def probabilities(left: Tensor, right: Tensor, scale: float) -> Matrix:
    """Eq. 1, 2, 6, 7: row softmax of scaled inner products."""
    n = len(left)
    logits = [[scale * float(left[i] @ right[j]) for j in range(n)] for i in range(n)]
    return [[math.exp(z) / sum(math.exp(other) for other in row) for z in row] for row in logits]


def softened(p: Matrix, beta: float) -> Matrix:
    """Eq. 8, 9."""
    n = len(p)
    return [[(1 - beta) * (1.0 if i == j else 0.0) + beta * p[i][j] for j in range(n)] for i in range(n)]


def negatives(p: Matrix) -> Matrix:
    """Eq. 12: without the diagonal, renormalised."""
    n = len(p)
    return [[p[i][j] / sum(p[i][k] for k in range(n) if k != i) for j in range(n) if j != i] for i in range(n)]


def kl(p: Sequence[float], q: Sequence[float]) -> float:
    return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True) if a > 0)


def symmetric(p: Sequence[float], q: Sequence[float]) -> float:
    """Eq. 15."""
    return (kl(p, q) + kl(q, p)) / 2


def js(p: Sequence[float], q: Sequence[float]) -> float:
    middle = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
    return (kl(p, middle) + kl(q, middle)) / 2


DIVERGENCES = {"kl": kl, "symmetric_kl": symmetric, "js": js}


def mean_divergence(kind: str, wanted: Matrix, found: Matrix, weights: Sequence[float]) -> float:
    costs = (w * DIVERGENCES[kind](p, q) for w, p, q in zip(weights, wanted, found, strict=True))
    return sum(costs) / sum(weights)


def clip_loss(u: Tensor, v: Tensor, scale: float, weights: Sequence[float]) -> float:
    """Eq. 3, 4."""
    both = (probabilities(u, v, scale), probabilities(v, u, scale))
    return sum(-weights[i] * math.log(p[i][i]) for p in both for i in range(len(u))) / (2 * sum(weights))


def softclip(
    u: Tensor,
    v: Tensor,
    r: Tensor,
    a: Tensor,
    *,
    scale: float,
    beta: float,
    kind: str = "symmetric_kl",
    weights: Sequence[float] | None = None,
) -> dict[str, float]:
    """The terms of Eq. 16; pairs may count by weights."""
    weights = weights or [1.0] * len(u)
    towards = (softened(probabilities(x, x, scale), beta) for x in (r, a))
    pairs = list(zip(towards, (probabilities(u, v, scale), probabilities(v, u, scale)), strict=True))
    soft = [mean_divergence(kind, p, q, weights) for p, q in pairs]  # 10, 11
    relation = [mean_divergence(kind, negatives(p), negatives(q), weights) for p, q in pairs]  # 13, 14
    return {"soft": sum(soft) / 2, "relation": sum(relation) / 2, "contrastive": clip_loss(u, v, scale, weights)}
