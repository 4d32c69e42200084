"""Similarities to mixes, overridden similarities and hardness, against what they stand for."""

from __future__ import annotations

from importlib import import_module

import pytest
import torch
from every_space import NAMES, space_named

from equipoise.spaces import (
    ProductSphere,
    Space,
    Sphere,
    TokenSets,
    TowardMix,
    geodesic_mix,
    hardness,
    override_scores,
    scores_by_class,
)
from equipoise.types import UserError

DIM = 8
ALL = [*(pytest.param(space_named(name, DIM), id=name) for name in NAMES), pytest.param(ProductSphere(4, 2), id="4x2")]


def points(space: Space, n: int, seed: int) -> torch.Tensor:
    return space.project(torch.randn(n, space.dim, generator=torch.Generator().manual_seed(seed)).double())


@pytest.mark.parametrize("space", ALL)
@pytest.mark.parametrize("lam", [0.0, 0.2, 0.7, 1.0])
def test_the_similarity_to_mixes_is_the_similarity_with_each_mix(space, lam):
    """The closed forms against the mixes themselves, made one by one."""
    u, v = points(space, 5, 1), points(space, 4, 2)
    v[0] = u[0]  # a pair without a way between them
    found = TowardMix(space, lam).similarity(u, v)
    for i in range(5):
        for j in range(4):
            mixed = geodesic_mix(u[i : i + 1], v[j : j + 1], lam, space=space)
            torch.testing.assert_close(
                found[i : i + 1, j : j + 1], space.similarity(u[i : i + 1], mixed), atol=1e-7, rtol=0
            )
    without_closed_form = Space.similarity_to_mix(space, u, v, lam)
    torch.testing.assert_close(without_closed_form, found, atol=1e-7, rtol=0)


@pytest.mark.parametrize("space", ALL)
def test_gradients_of_the_similarity_to_mixes_are_right_both_ways(space):
    u, v = (points(space, n, n).requires_grad_() for n in (2, 3))
    for how in (type(space).similarity_to_mix, Space.similarity_to_mix):
        check = lambda a, b, how=how: how(space, space.project(a), space.project(b), 0.3)  # noqa: E731
        assert torch.autograd.gradcheck(check, (u, v))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("space", ALL)
def test_the_similarity_to_mixes_is_finite_for_identical_and_opposite_points(space, dtype):
    u = points(space, 3, 1).to(dtype)
    for other in (u, -u, u + 1e-7, -u + 1e-7):
        rows, cols = u.clone().requires_grad_(), other.clone().requires_grad_()
        found = TowardMix(space, 0.4).similarity(rows, cols)
        assert found.isfinite().all()
        assert all(grad.isfinite().all() for grad in torch.autograd.grad(found.sum(), (rows, cols)))


@pytest.mark.parametrize("space", [*ALL, pytest.param(TokenSets(4, 2), id="token_sets")])
def test_pairwise_is_the_diagonal(space):
    u, v = points(space, 130, 1), points(space, 130, 2)  # more than one block
    torch.testing.assert_close(space.pairwise(u, v), space.similarity(u, v).diagonal(), rtol=0, atol=1e-13)


def test_overrides_replace_just_what_they_name():
    space = Sphere(DIM)
    u, v = points(space, 5, 1), points(space, 6, 2)
    places = torch.tensor([0, 2, 5, 1, 1]), torch.tensor([3, 2, 0, 5, 4])
    values = torch.arange(5.0), 10 + torch.arange(5.0)
    rows, cols, scorer = override_scores(u, v, list(zip(places, values, strict=True)), of=space)
    expected = u @ v.T
    for place, value in zip(places, values, strict=True):
        for i in range(5):
            expected[i, place[i]] = value[i].double()
    assert torch.equal(scorer.similarity(rows, cols), expected)
    torch.testing.assert_close(scorer.similarity(rows[1:3], cols[2:]), expected[1:3, 2:], rtol=0, atol=1e-15)


def test_class_scores_choose_the_point_by_class():
    space = Sphere(DIM)
    own, other, v = (points(space, n, seed) for n, seed in ((4, 1), (4, 2), (5, 3)))
    classes, col_classes = torch.tensor([[0, 1], [2, 2], [3, 0], [1, 4]]), torch.tensor([0, 2, 1, 3, 0])
    rows, cols, scorer = scores_by_class(own, other, classes, v, col_classes, of=space)
    for i in range(4):
        for j in range(5):
            point = own[i] if int(col_classes[j]) in classes[i].tolist() else other[i]
            assert float(scorer.similarity(rows, cols)[i, j]) == pytest.approx(float(point @ v[j]), abs=1e-15)


def test_a_block_of_scores_is_that_block_of_the_whole():
    """What every engine relies on, for each scorer that is no space."""
    space = Sphere(DIM)
    u, v, w = (points(space, 6, seed) for seed in (1, 2, 3))
    number, diagonal = torch.arange(6), space.pairwise(u, w)
    for rows, cols, scorer in (
        (u, v, TowardMix(space, 0.3)),
        override_scores(u, v, [(number, diagonal), (number.flip(0), diagonal)], of=space),
        override_scores(u, v, [(number, diagonal)], of=TowardMix(space, 0.3)),
        scores_by_class(u, w, number[:, None] // 2, v, number // 2, of=space),
    ):
        assert rows.shape[1] == cols.shape[1] == scorer.dim
        whole = scorer.similarity(rows, cols)
        for r, c in ((slice(1, 4), slice(0, 6)), (slice(0, 2), slice(3, 6)), (slice(5, 6), slice(2, 3))):
            torch.testing.assert_close(scorer.similarity(rows[r], cols[c]), whole[r, c], rtol=0, atol=1e-14)


@pytest.mark.parametrize("chunk", [1, 7, 1 << 22])
def test_hardness_equals_loops(chunk, monkeypatch):
    monkeypatch.setattr(import_module("equipoise.spaces.hard_negatives"), "AT_ONCE", chunk)
    space = Sphere(4)
    u, v = points(space, 9, 1), points(space, 9, 2)
    found = hardness(u, v, space=space)
    for i in range(9):
        others = [float(u[i] @ v[j]) for j in range(9) if j != i]
        assert float(found.closest[i]) == pytest.approx(max(others), abs=1e-14)
        assert float(found.above[i]) == sum(x > float(u[i] @ v[i]) for x in others) / 8
        assert float(found.positive[i]) == pytest.approx(float(u[i] @ v[i]), abs=1e-14)
    ties = hardness(u[:1].expand(3, -1), v[:1].expand(3, -1), space=space)
    assert ties.above.tolist() == [0, 0, 0]  # as close is not closer
    assert hardness(u, v, space=space, positive=torch.full((9,), -2.0)).above.tolist() == [1] * 9


def test_a_space_without_geodesics_is_refused():
    with pytest.raises(UserError, match="TokenSets has no geodesics to mix along"):
        TowardMix(TokenSets(4, 2), 0.5)
    with pytest.raises(UserError, match="lam must lie between 0 and 1, not 2"):
        TowardMix(Sphere(4), 2.0)
