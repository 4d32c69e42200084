"""The contract of every space."""

from __future__ import annotations

import itertools

import pytest
import torch

from equipoise.spaces import SPACES, Sphere
from equipoise.types import UserError

DIM = 12
ALL = [pytest.param(make(dim=DIM), id=name) for name, make in SPACES.items()]


def vectors(n: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, DIM, generator=torch.Generator().manual_seed(seed)).double()


@pytest.mark.parametrize("space", ALL)
def test_projection_leaves_points_where_they_are(space):
    points = space.project(vectors(20))
    torch.testing.assert_close(space.project(points), points, rtol=0, atol=1e-14)


@pytest.mark.parametrize("space", ALL)
def test_similarity_is_symmetric_and_in_range(space):
    u, v = space.project(vectors(20, 1)), space.project(vectors(30, 2))
    s = space.similarity(u, v)
    assert s.shape == (20, 30)
    torch.testing.assert_close(s, space.similarity(v, u).T, rtol=0, atol=1e-14)
    low, high = space.range
    assert low - 1e-12 <= float(s.min())
    assert float(s.max()) <= high + 1e-12


@pytest.mark.parametrize("space", ALL)
def test_nothing_is_closer_than_itself(space):
    u = space.project(vectors(20))
    s = space.similarity(u, u)
    assert (s.diagonal()[:, None] >= s - 1e-12).all()
    torch.testing.assert_close(s.diagonal(), torch.full((20,), space.range[1], dtype=torch.float64))


@pytest.mark.parametrize("space", ALL)
def test_a_block_is_a_part_of_the_whole(space):
    u, v = space.project(vectors(9, 1)), space.project(vectors(11, 2))
    whole = space.similarity(u, v)
    for rows, cols in itertools.product((slice(0, 4), slice(4, 9)), (slice(0, 7), slice(7, 11))):
        torch.testing.assert_close(space.similarity(u[rows], v[cols]), whole[rows, cols], rtol=0, atol=1e-14)


@pytest.mark.parametrize("space", ALL)
@pytest.mark.parametrize("kind", ["random", "identical", "antipodal"])
def test_gradients_are_right(space, kind):
    x = vectors(3, 5)
    y = {"random": vectors(3, 6), "identical": x.clone(), "antipodal": -x}[kind]
    check = lambda a, b: space.similarity(space.project(a), space.project(b))  # noqa: E731
    assert torch.autograd.gradcheck(check, (x.requires_grad_(), y.detach().requires_grad_()))


@pytest.mark.parametrize("space", ALL)
def test_zero_vectors_give_finite_values_and_gradients(space):
    x = torch.zeros(2, DIM, dtype=torch.float64, requires_grad=True)
    points = space.project(x)
    space.similarity(points, space.project(vectors(2))).sum().backward()
    assert torch.isfinite(points).all()
    assert torch.isfinite(x.grad).all()


def test_a_sphere_of_one_dimension_is_refused():
    with pytest.raises(UserError, match="dim >= 2"):
        Sphere(1)
