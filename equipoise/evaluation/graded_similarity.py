"""Rank correlation of a model's similarities with the grades that people gave to pairs (CxC's STS, SIS and SITS).

    ρ      Spearman's correlation of similarities and grades over all pairs; ties have the mean of their ranks
    bootstrap, as Parekh et al. 2021 report it: half of the queries (first ends) are drawn without putting back, one of
           each one's pairs is drawn, ρ of these; mean and standard deviation over `draws` such samples

The sample keeps queries with many pairs from outweighing others, which biases ρ over all pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from equipoise.types import UserError

DRAWS = 1000


class GradedCorrelation(NamedTuple):
    rho: float  # of all pairs
    mean: float  # of the bootstrap
    deviation: float
    pairs: int


def graded_correlation(
    similarities: Sequence[float], grades: Sequence[float], queries: Sequence[object], draws: int = DRAWS, seed: int = 0
) -> GradedCorrelation:
    """Correlation of one similarity and one grade for each pair, whose query is the first of the two."""
    values, judged = np.asarray(similarities, dtype=np.float64), np.asarray(grades, dtype=np.float64)
    if len(values) < 3 or np.ptp(judged) == 0:
        raise UserError(f"{len(values)} pairs with grades that differ cannot be ranked; give at least three")
    numbers = np.unique(np.array([str(query) for query in queries]), return_inverse=True)[1]
    order = np.argsort(numbers, kind="stable")
    starts = np.searchsorted(numbers[order], np.arange(numbers.max() + 2))
    random, found = np.random.default_rng(seed), []
    for _ in range(draws):
        chosen = random.permutation(len(starts) - 1)[: max(3, (len(starts) - 1) // 2)]
        at = starts[chosen] + (random.random(len(chosen)) * (starts[chosen + 1] - starts[chosen])).astype(np.int64)
        found.append(spearman(values[order[at]], judged[order[at]]))
    known = [one for one in found if not np.isnan(one)]
    if not known:
        raise UserError("no sample of these pairs has grades that differ, so there is nothing to correlate")
    return GradedCorrelation(spearman(values, judged), float(np.mean(known)), float(np.std(known)), len(values))


def spearman(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's rank correlation; NaN where one side is all the same."""
    x, y = (ranks - ranks.mean() for ranks in (mean_ranks(a), mean_ranks(b)))
    length = np.sqrt((x @ x) * (y @ y))
    return float(x @ y / length) if length else float("nan")


def mean_ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 1; equal values share the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[inverse]
