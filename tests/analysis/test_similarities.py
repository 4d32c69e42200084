"""The four distributions against a loop over all pairs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from equipoise.analysis import similarities as module
from equipoise.analysis.sampled_pairs import SampledPoints
from equipoise.analysis.similarities import similarities
from equipoise.spaces import Euclidean, ProductSphere, Sphere
from equipoise.types import UserError


def points(space, count):
    chance = torch.Generator().manual_seed(5)
    return SampledPoints(*(space.project(torch.randn(count, 8, generator=chance).double()) for _ in range(2)))


def values_aloud(pairs, space):
    def s(a, b):
        return float(space.similarity(a[None], b[None]))

    u, v = pairs
    count = range(len(u))
    others = [(i, j) for i in count for j in count if i != j]
    return {
        "positive": [s(u[i], v[i]) for i in count],
        "negative": [s(u[i], v[j]) for i, j in others],
        "images": [s(u[i], u[j]) for i, j in others],
        "texts": [s(v[i], v[j]) for i, j in others],
    }, sum(s(u[i], v[j]) > s(u[i], v[i]) for i, j in others) / len(others)


@pytest.mark.parametrize("space", [Sphere(8), ProductSphere(4, 2), Euclidean(8)], ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("tile", [4, 1024])
def test_distributions_equal_a_loop(space, tile, monkeypatch):
    monkeypatch.setattr(module, "TILE", tile)
    pairs = points(space, 11)
    found = similarities(pairs, space, bins=6)
    expected, confused = values_aloud(pairs, space)
    assert found.confused == pytest.approx(confused)
    for kind, values in expected.items():
        spread = found.spreads[kind]
        assert spread.total == len(values) == sum(spread.counts)
        assert spread.mean == pytest.approx(np.mean(values))
        assert spread.deviation == pytest.approx(np.std(values), rel=1e-6)
        assert spread.counts == np.histogram(values, [-np.inf, *found.edges[1:-1], np.inf])[0].tolist()


def test_equal_points_fill_one_bin():
    same = torch.ones(4, 8).double() / math.sqrt(8)
    found = similarities(SampledPoints(same, same), Sphere(8), bins=5)
    assert found.confused == 0
    for spread in found.spreads.values():
        assert sorted(spread.counts)[:-1] == [0, 0, 0, 0]
        assert spread.deviation == pytest.approx(0, abs=1e-7)


def test_two_pairs_are_enough_and_one_is_not():
    assert similarities(points(Sphere(8), 2), Sphere(8)).spreads["negative"].total == 2
    with pytest.raises(UserError, match="one pair has no negatives"):
        similarities(points(Sphere(8), 1), Sphere(8))


def test_not_a_number_is_refused():
    bad = points(Sphere(8), 3)
    bad.images[1] = torch.nan
    with pytest.raises(UserError, match="not finite"):
        similarities(bad, Sphere(8))
