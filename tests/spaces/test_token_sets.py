"""Sets of vectors: the similarity of FILIP against loops, padding, parts, gradients."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from equipoise.forms import CrossEntropy
from equipoise.kernels import contrast
from equipoise.spaces import TokenSets, geodesic_mix, token_sets
from equipoise.targets import OneHot
from equipoise.types import UserError

N, M = 3, 5


def sets(space: TokenSets, sizes: list[int], seed: int) -> Tensor:
    """Points of so many vectors each, the rest padding."""
    x = torch.randn(len(sizes), M, N, generator=torch.Generator().manual_seed(seed)).double()
    for row, size in zip(x, sizes, strict=True):
        row[size:] = 0
    return space.project(x.flatten(1))


def by_hand(u: Tensor, v: Tensor, toward: str) -> float:
    one, two = ([part for part in x.view(M, N) if part.any()] for x in (u, v))
    rows = sum(max(float(a @ b) for b in two) for a in one) / len(one)
    cols = sum(max(float(a @ b) for a in one) for b in two) / len(two)
    return {"rows": rows, "cols": cols, "both": (rows + cols) / 2}[toward]


@pytest.mark.parametrize("toward", ["rows", "cols", "both"])
@pytest.mark.parametrize("at_once", [10**6, 40, 1])
def test_similarity_equals_the_paper_read_aloud(toward, at_once, monkeypatch):
    monkeypatch.setattr(token_sets, "AT_ONCE", at_once)
    space = TokenSets(N, M, toward)
    u, v = sets(space, [5, 1, 3], 1), sets(space, [2, 4, 5, 1], 2)
    found = space.similarity(u, v)
    for i in range(3):
        for j in range(4):
            assert float(found[i, j]) == pytest.approx(by_hand(u[i], v[j], toward), abs=1e-14)


def test_it_is_a_similarity():
    space = TokenSets(N, M)
    u, v = sets(space, [5, 1, 3], 1), sets(space, [2, 4], 2)
    torch.testing.assert_close(space.similarity(u, v), space.similarity(v, u).T, rtol=0, atol=1e-15)
    own = space.similarity(u, u)
    torch.testing.assert_close(own.diagonal(), torch.ones(3).double(), rtol=0, atol=1e-14)
    assert float(own.abs().max()) <= space.range[1] + 1e-12
    torch.testing.assert_close(space.project(u), u, rtol=0, atol=1e-15)
    torch.testing.assert_close(space.similarity(u[1:], v[:1]), space.similarity(u, v)[1:, :1], rtol=0, atol=1e-15)


@pytest.mark.parametrize("toward", ["rows", "cols", "both"])
def test_gradients_and_parts(toward, monkeypatch):
    space = TokenSets(N, M, toward)
    u, v = (sets(space, sizes, seed).requires_grad_() for sizes, seed in (([5, 1, 3], 1), ([2, 4, 5], 2)))

    real = u.detach() != 0, v.detach() != 0

    def check(a: Tensor, b: Tensor) -> Tensor:
        return space.similarity(a * real[0], b * real[1])  # padding stays padding when it is moved

    assert torch.autograd.gradcheck(check, (u, v))
    whole = torch.autograd.grad(space.similarity(u, v).square().sum(), (u, v))
    monkeypatch.setattr(token_sets, "AT_ONCE", 1)
    for part, grad in zip(torch.autograd.grad(space.similarity(u, v).square().sum(), (u, v)), whole, strict=True):
        torch.testing.assert_close(part, grad, rtol=0, atol=1e-14)
    assert all((grad[x == 0] == 0).all() for x, grad in zip((u, v), whole, strict=True))


def test_tiles_equal_one_block():
    space = TokenSets(N, M, "rows")
    u, v = (sets(space, [1, 2, 3, 4, 5, 5, 2], seed).requires_grad_() for seed in (1, 2))
    found = []
    for impl in ("eager", "tiled"):
        form = CrossEntropy("rows")
        loss = contrast(u, v, space=space, target=OneHot(), form=form, log_scale=1.5, impl=impl, tile=3)
        found.append((loss, *torch.autograd.grad(loss, (u, v))))
    for eager, tiled in zip(*found, strict=True):
        torch.testing.assert_close(tiled, eager, rtol=0, atol=1e-12)


def test_no_rows_or_columns():
    space = TokenSets(N, M)
    u = sets(space, [2, 3], 1)
    assert space.similarity(u[:0], u).shape == (0, 2)
    assert space.similarity(u, u[:0]).shape == (2, 0)


def test_empty_sets_and_zero_vectors_stay_finite():
    space = TokenSets(N, M)
    x = torch.zeros(2, N * M, dtype=torch.float64, requires_grad=True)
    similarity = space.similarity(space.project(x), sets(space, [2, 0], 1))
    assert torch.equal(similarity.detach(), torch.zeros(2, 2).double())
    similarity.sum().backward()
    assert x.grad.isfinite().all()


def test_what_makes_no_sense_is_refused():
    for settings in ({"n": 1}, {"m": 0}, {"toward": "up"}, {"dim": 7}):
        with pytest.raises(UserError):
            TokenSets(**settings)
    u = torch.randn(2, 77 * 256)
    with pytest.raises(UserError, match="geodesics"):
        geodesic_mix(u, u, 0.5, space=TokenSets())
