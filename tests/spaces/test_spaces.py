"""The contract of every space: identities, not values."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from every_space import NAMES, space_named
from torch import Tensor

from equipoise.spaces import Euclidean, ProductSphere, Space, Sphere, geodesic_mix
from equipoise.types import UserError

DIM = 12
ALL = [pytest.param(space_named(name, DIM), id=name) for name in NAMES]
ALL.append(pytest.param(ProductSphere(4, 3, distance="geodesic"), id="product_sphere-4x3"))
CURVED = [case for case in ALL if not isinstance(case.values[0], Euclidean)]
KINDS = ("random", "identical", "antipodal", "nearly identical", "nearly antipodal")
ABOVE_KINKS = 1e-3  # "nearly": an angle within which a naive arccos has lost half of its digits


def vectors(n: int, seed: int = 0, dim: int = DIM) -> Tensor:
    return torch.randn(n, dim, generator=torch.Generator().manual_seed(seed)).double()


def points(space: Space, n: int, seed: int = 0) -> Tensor:
    return space.project(vectors(n, seed))


def beside(x: Tensor, kind: str) -> Tensor:
    near = ABOVE_KINKS * vectors(len(x), 77)
    return {
        "random": vectors(len(x), 6),
        "identical": x.clone(),
        "antipodal": -x,
        "nearly identical": x + near,
        "nearly antipodal": near - x,
    }[kind]


@pytest.mark.parametrize("space", ALL)
def test_projection_leaves_points_where_they_are(space):
    u = points(space, 20)
    torch.testing.assert_close(space.project(u), u, rtol=0, atol=1e-14)


@pytest.mark.parametrize("space", ALL)
def test_similarity_is_symmetric_and_in_range(space):
    u, v = points(space, 20, 1), points(space, 30, 2)
    s = space.similarity(u, v)
    assert s.shape == (20, 30)
    torch.testing.assert_close(s, space.similarity(v, u).T, rtol=0, atol=1e-13)
    low, high = space.range
    assert low - 1e-12 <= float(s.min())
    assert float(s.max()) <= high + 1e-12


@pytest.mark.parametrize("space", ALL)
def test_the_range_is_reached(space):
    u = points(space, 5)
    low, high = space.range
    torch.testing.assert_close(
        space.similarity(u, u).diagonal(), torch.full((5,), high, dtype=torch.float64), rtol=0, atol=1e-13
    )
    if math.isfinite(low):
        opposite = space.similarity(u, -u).diagonal()
        torch.testing.assert_close(opposite, torch.full((5,), low, dtype=torch.float64), rtol=0, atol=1e-13)


@pytest.mark.parametrize("space", ALL)
def test_nothing_is_closer_than_itself(space):
    s = space.similarity(points(space, 20), points(space, 20))
    assert (s.diagonal()[:, None] >= s - 1e-12).all()


@pytest.mark.parametrize("space", ALL)
def test_a_block_is_a_part_of_the_whole(space):
    u, v = points(space, 9, 1), points(space, 11, 2)
    whole = space.similarity(u, v)
    for rows, cols in itertools.product((slice(0, 4), slice(4, 9)), (slice(0, 7), slice(7, 11))):
        torch.testing.assert_close(space.similarity(u[rows], v[cols]), whole[rows, cols], rtol=0, atol=1e-14)


@pytest.mark.parametrize("space", ALL)
@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_similarity_are_right(space, kind):
    x = vectors(3, 5)
    check = lambda a, b: space.similarity(space.project(a), space.project(b))  # noqa: E731
    assert torch.autograd.gradcheck(check, (x.requires_grad_(), beside(x.detach(), kind).requires_grad_()))


@pytest.mark.parametrize("space", ALL)
def test_zero_vectors_give_finite_values_and_gradients(space):
    for other in (vectors(2), torch.zeros(2, DIM).double()):
        x = torch.zeros(2, DIM, dtype=torch.float64, requires_grad=True)
        u, v = space.project(x), space.project(other)
        mixed = space.interpolate(u, v, 0.3)
        (space.similarity(u, v).sum() + mixed.sum() + space.geodesic_distance(u, v).sum()).backward()
        assert all(torch.isfinite(t).all() for t in (u, mixed, x.grad))


@pytest.mark.parametrize("space", ALL)
@pytest.mark.parametrize("kind", KINDS)
def test_exp_undoes_log(space, kind):
    x = vectors(20, 5)
    u, v = space.project(x), space.project(beside(x, kind))
    z = space.log(u, v)
    torch.testing.assert_close(space.exp(u, z), v, rtol=0, atol=1e-12)
    torch.testing.assert_close(z.norm(dim=-1), space.geodesic_distance(u, v), rtol=0, atol=1e-12)


@pytest.mark.parametrize("space", ALL)
def test_log_undoes_exp_within_half_a_turn(space):
    u = points(space, 20, 1)
    z = space.tangent(u, vectors(20, 2))
    z = z / z.norm(dim=-1, keepdim=True) * torch.linspace(1e-9, 3.1, 20).double()[:, None]
    torch.testing.assert_close(space.log(u, space.exp(u, z)), z, rtol=0, atol=1e-12)


@pytest.mark.parametrize("space", ALL)
def test_tangents_are_projected_once_and_orthogonally(space):
    u, x = points(space, 20, 1), vectors(20, 2)
    z = space.tangent(u, x)
    torch.testing.assert_close(space.tangent(u, z), z, rtol=0, atol=1e-14)
    torch.testing.assert_close((z * (x - z)).sum(-1), torch.zeros(20).double(), rtol=0, atol=1e-13)


@pytest.mark.parametrize("space", CURVED)
def test_tangents_leave_no_part_along_a_radius(space):
    u = points(space, 20, 1)
    z = space.tangent(u, vectors(20, 2))
    step = 1e-6
    off = space.project(u + step * z) - (u + step * z)  # a tangent step leaves the space by its square only
    assert float(off.abs().max()) < 20 * step**2


@pytest.mark.parametrize("space", ALL)
def test_the_geodesic_distance_is_a_metric(space):
    u, v, w = (points(space, 200, seed) for seed in (1, 2, 3))
    d = space.geodesic_distance
    torch.testing.assert_close(d(u, v), d(v, u), rtol=0, atol=1e-14)
    assert (d(u, u) == 0).all()
    assert (d(u, v) > 0).all()
    assert (d(u, w) <= d(u, v) + d(v, w) + 1e-12).all()


@pytest.mark.parametrize("space", ALL)
@pytest.mark.parametrize("kind", KINDS)
def test_geodesics_have_constant_speed(space, kind):
    x = vectors(6, 5)
    u, v = space.project(x), space.project(beside(x, kind))
    length = space.geodesic_distance(u, v)
    for lam in (0.0, 0.1, 0.5, 0.9, 1.0):
        there = space.interpolate(u, v, lam)
        torch.testing.assert_close(space.project(there), there, rtol=0, atol=1e-12)
        torch.testing.assert_close(space.geodesic_distance(there, v), lam * length, rtol=0, atol=1e-9)
        torch.testing.assert_close(space.geodesic_distance(there, u), (1 - lam) * length, rtol=0, atol=1e-9)


@pytest.mark.parametrize("space", ALL)
@pytest.mark.parametrize("kind", ["random", "identical", "nearly identical"])
def test_gradients_of_geodesics_are_right(space, kind):
    x = vectors(2, 5)
    lam = torch.tensor([0.3, 0.8]).double()
    check = lambda a, b, c: space.interpolate(space.project(a), space.project(b), c)  # noqa: E731
    inputs = (x.requires_grad_(), beside(x.detach(), kind).requires_grad_(), lam.requires_grad_())
    assert torch.autograd.gradcheck(check, inputs)


@pytest.mark.parametrize("space", ALL)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("distance", [0.0, 1e-42, 1e-30, 1e-12, 1e-6])
def test_gradients_stay_finite_however_near_points_come(space, dtype, distance):
    for sign in (1, -1):
        u = points(space, 3).to(dtype).requires_grad_()
        v = (sign * u.detach() + distance * vectors(3, 9).to(dtype)).requires_grad_()
        total = space.similarity(u, v).sum() + space.geodesic_distance(u, v).sum() + space.interpolate(u, v, 0.4).sum()
        assert all(torch.isfinite(g).all() for g in torch.autograd.grad(total, (u, v)))


@pytest.mark.parametrize("space", CURVED)
def test_samples_are_uniform(space):
    x = space.sample(20_000, torch.Generator().manual_seed(0))
    torch.testing.assert_close(space.project(x), x, rtol=0, atol=1e-14)
    torch.testing.assert_close(x.mean(0), torch.zeros(DIM).double(), rtol=0, atol=0.02)
    each = DIM // space.factors  # E[x xᵀ] = I/n on a sphere in n dimensions
    torch.testing.assert_close(x.T @ x / len(x), torch.eye(DIM).double() / each, rtol=0, atol=0.02)


# What is true of one space only


def test_the_inner_product_of_a_product_sphere_is_no_metric():
    """The paper's relaxed inequality: as a distance, c - ⟨u, v⟩ lets two near steps lead far."""
    space = ProductSphere(2, 2)
    angles = torch.tensor([0.0, 0.5, 1.0]).double()
    arc = torch.stack([angles.cos(), angles.sin(), angles.cos(), angles.sin()], dim=1)
    distance = space.range[1] - space.similarity(arc, arc)
    assert float(distance[0, 2]) > float(distance[0, 1] + distance[1, 2])


@pytest.mark.parametrize("space", [Euclidean(DIM), ProductSphere(4, 3, distance="geodesic")], ids=str)
def test_similarity_by_a_metric_keeps_the_triangle_inequality(space):
    u, v, w = (points(space, 40, seed) for seed in (1, 2, 3))
    direct, one, two = (-space.similarity(a, b) for a, b in ((u, w), (u, v), (v, w)))
    assert (direct[:, None, :] <= one[:, :, None] + two[None] + 1e-12).all()


@pytest.mark.parametrize(("n", "m"), [(12, 1), (4, 3), (3, 4), (2, 6)])
@pytest.mark.parametrize("distance", ["inner", "geodesic"])
def test_product_spheres_equal_the_paper_read_aloud(n, m, distance):
    space = ProductSphere(n, m, distance=distance)
    x, y = vectors(5, 1), vectors(4, 2)
    got = space.similarity(space.project(x), space.project(y))
    for i, j in itertools.product(range(5), range(4)):
        inner = []
        for k in range(m):
            a, b = x[i, k * n : (k + 1) * n].tolist(), y[j, k * n : (k + 1) * n].tolist()
            lengths = math.sqrt(sum(z * z for z in a)) * math.sqrt(sum(z * z for z in b))
            inner.append(sum(p * q for p, q in zip(a, b, strict=True)) / lengths)
        expected = sum(inner) if distance == "inner" else -math.sqrt(sum(math.acos(c) ** 2 for c in inner))
        assert float(got[i, j]) == pytest.approx(expected, abs=1e-13)


def test_euclidean_similarity_is_the_distance_not_its_square():
    x, y = vectors(5, 1), vectors(4, 2)
    expected = [[-math.dist(a, b) for b in y.tolist()] for a in x.tolist()]
    torch.testing.assert_close(
        Euclidean(DIM).similarity(x, y), torch.tensor(expected, dtype=x.dtype), rtol=0, atol=1e-13
    )


def test_a_product_of_one_sphere_is_the_sphere():
    one, sphere, x = ProductSphere(DIM, 1), Sphere(DIM), vectors(9)
    assert one.range == sphere.range
    assert torch.equal(one.project(x), sphere.project(x))
    u, v = sphere.project(x), sphere.project(vectors(9, 1))
    assert torch.equal(one.similarity(u, v), sphere.similarity(u, v))
    assert torch.equal(one.interpolate(u, v, 0.3), sphere.interpolate(u, v, 0.3))


def test_the_inner_product_of_a_product_sphere_is_that_of_flat_vectors():
    space = ProductSphere(4, 3)
    u, v = points(space, 5, 1), points(space, 6, 2)
    torch.testing.assert_close(space.similarity(u, v), torch.einsum("ikn,jkn->ij", u.view(5, 3, 4), v.view(6, 3, 4)))
    torch.testing.assert_close(u.norm(dim=-1), torch.full((5,), math.sqrt(3), dtype=torch.float64))


@pytest.mark.parametrize("lam", [0.0, 0.25, 0.5, 1.0])
def test_the_geodesic_mix_on_the_sphere_is_the_published_formula(lam):
    sphere = Sphere(DIM)
    a, b = points(sphere, 10, 1), points(sphere, 10, 2)
    theta = (a * b).sum(-1, keepdim=True).acos()
    expected = (torch.sin(lam * theta) * a + torch.sin((1 - lam) * theta) * b) / torch.sin(theta)
    torch.testing.assert_close(geodesic_mix(a, b, lam, space=sphere), expected, rtol=0, atol=1e-13)


def test_distances_of_near_points_keep_their_digits_in_single_precision():
    """‖u‖² + ‖v‖² - 2⟨u, v⟩ alone is wrong by more than a thousandth here, or negative."""
    u = vectors(50).float() * 30
    v = u + 1e-4 * vectors(50, 1).float()
    exact = (u.double() - v.double()).norm(dim=-1)
    got = -Euclidean(DIM).similarity(u, v).diagonal()
    torch.testing.assert_close(got.double(), exact, rtol=1e-6, atol=0)


class Wordless(Space):
    def project(self, vectors: Tensor) -> Tensor:
        return vectors

    def similarity(self, rows: Tensor, cols: Tensor) -> Tensor:
        return rows @ cols.T

    @property
    def range(self) -> tuple[float, float]:
        return (-math.inf, math.inf)


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda: Sphere(1), "a sphere needs dim >= 2, not 1"),
        (lambda: Euclidean(0), "a Euclidean space needs dim >= 1, not 0"),
        (lambda: ProductSphere(1, 4), "n is 1; each sphere of a product needs n >= 2"),
        (lambda: ProductSphere(4, 0), "m is 0; a product needs m >= 1 spheres"),
        (lambda: ProductSphere(4, 2, dim=9), r"dim is 9, but n·m = 4·2 = 8; leave dim out"),
        (lambda: ProductSphere(4, 2, distance="cosine"), "distance must be one of inner, geodesic, not 'cosine'"),
        (lambda: Euclidean(3).sample(2), "the space Euclidean has no uniform distribution"),
        (lambda: Wordless(3).exp(vectors(1), vectors(1)), "the space Wordless has no geodesics"),
        (lambda: Wordless(3).interpolate(vectors(1), vectors(1), 0.5), "the space Wordless has no geodesics"),
        (lambda: geodesic_mix(vectors(1), vectors(1), 0.5, space=Wordless(3)), "Wordless has no geodesics to mix"),
        (lambda: geodesic_mix(vectors(1), vectors(1), 1.5, space=Sphere(DIM)), "lam must lie between 0 and 1, not 1.5"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(ask, sentence):
    with pytest.raises(UserError, match=sentence):
        ask()
