"""Intervals by the bootstrap: units are drawn with putting back, and a metric is computed of each sample.

A metric that is a mean over queries is Σ_i w_i s_i / Σ_i w_i c_i, where unit i (an image) has c_i queries whose values
sum to s_i and was drawn w_i times. Captions of one image are drawn together, for their hits are not independent: texts
as units would make intervals too narrow. Ends are the percentiles (Efron & Tibshirani 1993, §13).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

DRAWS, LEVEL = 1000, 0.95


def resampled_means(sums: np.ndarray, counts: np.ndarray, draws: int = DRAWS, seed: int = 0) -> np.ndarray:
    """Metrics of samples [draws, M], of sums and counts [N, M] of N units; NaN where a sample has no query."""
    found = np.empty((draws, sums.shape[1]))
    for row, weights in zip(found, _weights(len(sums), draws, seed), strict=True):
        with np.errstate(invalid="ignore", divide="ignore"):
            row[:] = (weights @ sums) / (weights @ counts)
    return found


def resampled_recall(
    correct: np.ndarray, labels: np.ndarray, classes: int, draws: int = DRAWS, seed: int = 0
) -> np.ndarray:
    """Mean per-class recall of samples [draws], of images that were recognised or not; absent classes do not count."""
    found = np.empty(draws)
    for number, weights in enumerate(_weights(len(labels), draws, seed)):
        hits = np.bincount(labels, weights=weights * correct, minlength=classes)
        total = np.bincount(labels, weights=weights, minlength=classes)
        found[number] = (hits[total > 0] / total[total > 0]).mean()
    return found


def interval(samples: np.ndarray, level: float = LEVEL) -> tuple[float, float]:
    """The percentiles between which `level` of the samples lie."""
    known = samples[~np.isnan(samples)]
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2]) if len(known) else (np.nan, np.nan)
    return float(low), float(high)


def _weights(units: int, draws: int, seed: int) -> Iterator[np.ndarray]:
    """How often each unit was drawn, one sample after another."""
    random = np.random.default_rng(seed)
    for _ in range(draws):
        yield np.bincount(random.integers(units, size=units), minlength=units).astype(float)
