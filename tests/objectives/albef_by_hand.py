"""ALBEF's and TCL's terms read aloud from the papers: one number after the other, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import Tensor

Similarity = Callable[[Tensor, Tensor], float]


def cross_entropy(points, keys, taught, alpha: float, scale: float, s: Similarity) -> float:
    """Li et al. 2021, Eq. 6: each of `points` among all `keys`, of which the one at its place is its own."""
    total = 0.0
    for i in range(len(points)):
        judged = [math.exp(scale * s(taught[i], key)) for key in keys]
        seen = [math.exp(scale * s(points[i], key)) for key in keys]
        for j in range(len(keys)):
            share = alpha * judged[j] / sum(judged) + (1 - alpha) * (i == j)
            total -= share * math.log(seen[j] / sum(seen)) / len(points)
    return total


def local_information(points, parts, real, scale: float, s: Similarity) -> float:
    """Yang et al. 2022, Eq. 6: each of `points` and its own parts, among the parts of all others."""
    total = 0.0
    for i in range(len(points)):
        others = 0.0
        for j in range(len(points)):
            for q in range(parts.shape[1]):
                if j != i and real[j][q]:
                    others += math.exp(scale * s(points[i], parts[j, q]))
        own = [math.exp(scale * s(points[i], parts[i, p])) for p in range(parts.shape[1]) if real[i][p]]
        total -= sum(math.log(each / (each + others)) for each in own) / len(own) / len(points)
    return total
