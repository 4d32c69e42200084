"""The spread of every space against points drawn at random and cases with a known answer."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch

from equipoise.spaces import Euclidean, ProductSphere, Sphere, TokenSets
from equipoise.spaces.spread import gaussian_spread, geodesic_spread

KNOWN = [
    Sphere(2),
    Sphere(48),
    ProductSphere(2, 3),
    ProductSphere(16, 8),
    *(ProductSphere(n, m, distance="geodesic") for n, m in ((2, 1), (2, 12), (3, 1), (5, 4), (64, 2))),
]


def _slow_by_arcs(space):
    return pytest.param(space, marks=pytest.mark.slow if getattr(space, "distance", "") == "geodesic" else ())


@pytest.mark.parametrize("space", list(map(_slow_by_arcs, KNOWN)), ids=str)
def test_spread_is_the_deviation_of_random_similarities(space):
    first, second = (space.sample(60_000, torch.Generator().manual_seed(seed)) for seed in (3, 4))
    drawn = float(space.pairwise(first, second).std())
    assert space.spread == pytest.approx(drawn, rel=0.015)
    assert space.start_spread == space.spread


def test_one_sphere_has_closed_forms():
    """θ is uniform on [0, π] in two dimensions; in three it has the density sin(θ)/2."""
    assert geodesic_spread(2, 1) == pytest.approx(math.pi / math.sqrt(12), rel=1e-11)
    assert geodesic_spread(3, 1) == pytest.approx(math.sqrt(math.pi**2 / 4 - 2), rel=1e-11)


def test_two_spheres_equal_an_integral_over_both_angles():
    """The mean and variance of √(θ₁² + θ₂²) for n = 4, by brute force over a grid."""
    theta = (torch.arange(2000, dtype=torch.float64) + 0.5) * math.pi / 2000
    density = theta.sin() ** 2
    density = density / density.sum()
    both = density[:, None] * density
    distance = (theta[:, None] ** 2 + theta**2).sqrt()
    mean = float((both * distance).sum())
    assert geodesic_spread(4, 2) == pytest.approx(float((both * (distance - mean) ** 2).sum().sqrt()), rel=1e-6)


def test_many_spheres_spread_as_the_central_limit_says():
    """sd √S → sd(θ²) / (2 √E θ²) as m grows, whatever m: distances do not spread wider with more spheres."""
    theta = (torch.arange(200_000, dtype=torch.float64) + 0.5) * math.pi / 200_000
    density = theta.sin() ** 14
    density = density / density.sum()
    mean = float((density * theta**2).sum())
    deviation = math.sqrt(float((density * (theta**2 - mean) ** 2).sum()))
    assert geodesic_spread(16, 20_000) == pytest.approx(deviation / (2 * math.sqrt(mean)), rel=1e-4)


def test_euclidean_space_has_a_spread_at_its_start_alone():
    assert Euclidean(6).spread is None
    points = torch.randn(2, 60_000, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert Euclidean(6).start_spread == pytest.approx(float((points[0] - points[1]).norm(dim=1).std()), rel=0.015)
    assert gaussian_spread(1000) == pytest.approx(gaussian_spread(1001), rel=1e-6)  # where the series takes over
    assert TokenSets(4, 3).spread is None
    assert TokenSets(4, 3).start_spread is None


def test_a_space_of_ones_own_is_sampled():
    @dataclass(frozen=True)
    class Halved(Sphere):
        spread = property(Sphere.__mro__[1].spread.func)  # as if it did not know

        def similarity(self, rows, cols):
            return rows @ cols.T / 2

    assert Halved(16).spread == pytest.approx(0.125, rel=0.05)


def test_distances_reach_as_far_as_their_range():
    for space in KNOWN:
        one = ProductSphere(space.n, 1, distance=space.distance) if isinstance(space, ProductSphere) else space
        assert space.reach == pytest.approx(space.range[0] / one.range[0])
