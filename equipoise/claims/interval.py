"""A 95% bootstrap interval of the mean of a few paired differences.

Efron & Tibshirani 1993, ch. 13: the percentiles of the means of resamples. With five seeds these are too narrow by
nearly a half, so the percentiles are taken further out, as Hesterberg 2015 ("What Teachers Should Know About the
Bootstrap", §3.3, the *expanded percentile interval*) says:

    α' = Φ(-√(n / (n-1)) · t_{n-1}(0.975)),       low, high = quantiles α' and 1 - α' of the resamples' means

For n = 5 that is α' = 0.00096. Up to `EXACT` differences every resample is visited, n^n of them, so nothing is drawn;
beyond, 20,000 are drawn from a fixed seed. A single difference says nothing about the next one: its interval is the
whole line.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations_with_replacement
from statistics import NormalDist

import numpy as np

EXACT = 8  # differences: 6,435 kinds of resamples
DRAWS = 20_000
T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)  # t(0.975) for 1 to 9 degrees of freedom
LATER = ((15, 2.131), (20, 2.086), (30, 2.042), (math.inf, 2.0))  # degrees of freedom up to, and the t of that many


def mean_interval(differences: Sequence[float]) -> tuple[float, float, float]:
    """Mean, low and high end of the 95% interval of its true value."""
    values = np.asarray(differences, dtype=float)
    n = len(values)
    if n < 2:
        return (float(values[0]) if n else math.nan), -math.inf, math.inf
    tail = NormalDist().cdf(-math.sqrt(n / (n - 1)) * _t(n - 1))
    means, weights = _every_resample(values) if n <= EXACT else _drawn(values)
    order = np.argsort(means, kind="stable")
    reached = np.cumsum(weights[order]) / weights.sum()
    first, last = (min(int(np.searchsorted(reached, level)), len(means) - 1) for level in (tail, 1 - tail))
    return float(values.mean()), float(means[order][first]), float(means[order][last])


def _t(freedom: int) -> float:
    if freedom <= len(T):
        return T[freedom - 1]
    return next(value for most, value in LATER if freedom <= most)


def _every_resample(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means of all resamples, each kind once, with the number of ways to draw it."""
    n = len(values)
    kinds = np.array(list(combinations_with_replacement(range(n), n)))
    counts = (kinds[:, :, None] == np.arange(n)).sum(1)
    ways = math.factorial(n) / np.array([math.prod(map(math.factorial, row)) for row in counts.tolist()])
    return values[kinds].mean(1), ways


def _drawn(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    means = np.random.default_rng(0).choice(values, (DRAWS, len(values))).mean(1)
    return means, np.ones(DRAWS)
