"""Subsets of class tokens: which are drawn, and that what is left out is out."""

from __future__ import annotations

import statistics

import pytest
import torch

from equipoise.analysis.token_ablation import Subsets, counts_for, draw_subsets, keeping, sub_spheres, subset_accuracies
from equipoise.spaces import ProductSphere, Sphere
from equipoise.types import UserError


def test_a_subset_is_the_space_of_its_chunks_alone():
    space = ProductSphere(3, 4)
    u, v = (space.project(torch.randn(5, 12, generator=torch.Generator().manual_seed(s)).double()) for s in (1, 2))
    mask = keeping((0, 2), 4)
    chunks = [0, 1, 2, 6, 7, 8]
    assert torch.allclose(space.similarity(mask(u), mask(v)), u[:, chunks] @ v[:, chunks].T)
    assert torch.equal(keeping((0, 1, 2, 3), 4)(u), u)
    prompts = v.view(5, 1, 12)
    assert torch.equal(mask(prompts)[:, 0], mask(v))


@pytest.mark.parametrize(
    ("m", "count", "draws", "expected"), [(4, 1, 20, 4), (4, 4, 20, 1), (16, 8, 20, 20), (5, 2, 10, 10)]
)
def test_subsets_are_different_and_all_of_them_where_they_are_few(m, count, draws, expected):
    found = draw_subsets(m, count, draws, seed=0)
    assert len(found) == len(set(found)) == expected
    assert all(len(set(subset)) == count and max(subset) < m for subset in found)
    assert found == draw_subsets(m, count, draws, seed=0)


def test_counts_double_up_to_all_of_them():
    assert counts_for(16) == [1, 2, 4, 8, 16]
    assert counts_for(6) == [1, 2, 4, 6]
    assert counts_for(2) == [1, 2]


def test_mean_and_deviation_are_those_of_a_sample():
    one = Subsets(2, [0.1, 0.5, 0.3])
    assert one.mean == pytest.approx(0.3)
    assert one.deviation == pytest.approx(statistics.stdev([0.1, 0.5, 0.3]))
    assert Subsets(4, [0.7]).deviation == 0


def test_measure_is_asked_for_every_subset():
    ones = torch.ones(1, 8)
    found = subset_accuracies(lambda mask: float(mask(ones).sum()) / 8, 4, draws=5, seed=0)
    assert [(one.tokens, one.mean, len(one.accuracies)) for one in found] == [(1, 0.25, 4), (2, 0.5, 5), (4, 1.0, 1)]


def test_a_space_without_sub_spheres_is_refused():
    assert sub_spheres(ProductSphere(4, 2)) == 2
    for space in (Sphere(8), ProductSphere(8, 1)):
        with pytest.raises(UserError, match="single sub-sphere, so no tokens can be left out"):
            sub_spheres(space)
    with pytest.raises(UserError, match="at least 1 subset"):
        subset_accuracies(lambda mask: 0.0, 4, draws=0, seed=0)


@pytest.mark.parametrize("distance", ["inner", "geodesic"])
def test_what_is_left_out_adds_nothing(distance):
    """Similarities are those of the product of the spheres that are kept."""
    whole, kept = ProductSphere(4, 3, distance=distance), ProductSphere(4, 2, distance=distance)
    u, v = (whole.sample(5, torch.Generator().manual_seed(seed)) for seed in (0, 1))
    leave = keeping((0, 2), 3)
    chosen = [0, 1, 2, 3, 8, 9, 10, 11]
    found = whole.similarity(leave(u), leave(v))
    torch.testing.assert_close(found, kept.similarity(u[:, chosen], v[:, chosen]), rtol=0, atol=1e-12)
