"""The interval of a mean against a brute-force bootstrap, and how often it holds the truth."""

from __future__ import annotations

import itertools
import math
from statistics import NormalDist

import numpy as np
import pytest

from equipoise.claims.interval import mean_interval


def brute_force(values: list[float]) -> tuple[float, float]:
    """Every resample, one by one, and the quantiles of the expanded percentile interval."""
    n = len(values)
    means = sorted(sum(values[i] for i in drawn) / n for drawn in itertools.product(range(n), repeat=n))
    t = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776}[n]
    tail = NormalDist().cdf(-math.sqrt(n / (n - 1)) * t)
    low = next(mean for place, mean in enumerate(means, 1) if place / len(means) >= tail - 1e-12)
    high = next(mean for place, mean in enumerate(means, 1) if place / len(means) >= 1 - tail - 1e-12)
    return low, high


@pytest.mark.parametrize("values", [[1.0, 2.0], [0.5, -0.2, 0.9], [3.0, 1.0, 2.0, 2.5], [1.0, 2.0, 4.0, 8.0, 16.0]])
def test_it_is_the_bootstrap_of_all_resamples(values: list[float]) -> None:
    mean, low, high = mean_interval(values)
    assert mean == pytest.approx(sum(values) / len(values))
    assert (low, high) == pytest.approx(brute_force(values))


def test_five_equal_differences_have_no_width_and_one_says_nothing() -> None:
    assert mean_interval([2.0] * 5) == (2.0, 2.0, 2.0)
    assert mean_interval([2.0]) == (2.0, -math.inf, math.inf)
    assert math.isnan(mean_interval([])[0])


@pytest.mark.parametrize(("seeds", "least"), [(5, 0.91), (12, 0.85)])
def test_it_holds_the_true_mean_about_as_often_as_it_says(seeds: int, least: float) -> None:
    draws = np.random.default_rng(3).normal(1.0, 2.0, (300 if seeds < 9 else 60, seeds))
    inside = [low <= 1.0 <= high for _, low, high in map(mean_interval, draws)]
    assert least <= np.mean(inside) <= 0.99


def test_it_moves_and_stretches_with_its_values() -> None:
    values = [0.3, 1.2, -0.4, 0.8, 2.0]
    plain, other = mean_interval(values), mean_interval([10 - 3 * value for value in values])
    assert other == pytest.approx((10 - 3 * plain[0], 10 - 3 * plain[2], 10 - 3 * plain[1]))
