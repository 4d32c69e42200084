"""Fused contrasts by distances against float64, also where points meet or are opposite.

Without a GPU, Triton's interpreter runs the kernels on the processor: few small tiles, so that blocks are ragged.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from equipoise.forms import CrossEntropy
from equipoise.kernels import contrast
from equipoise.kernels.triton.euclidean import fused_euclidean
from equipoise.kernels.triton.geodesic import STORED, fused_geodesic, plan_for
from equipoise.kernels.triton.launch_config import Plan, Tile
from equipoise.spaces import Euclidean, ProductSphere, Space
from equipoise.targets import OneHot

SMALL = Tile(32, 32, 16)
PLAN = Plan("tiles", SMALL, SMALL, chunk_rows=64, chunk_cols=32, partial_sums=1, sweep_cols=32)
SPACES = {
    "euclidean": Euclidean(20),
    "geodesic": ProductSphere(8, 3, distance="geodesic"),
    "circles": ProductSphere(2, 2, distance="geodesic"),
}
BUDGET = {torch.bfloat16: 2**-7, torch.float32: 1e-4}  # of a gradient's largest entry: weights are rounded, or pairs
OF_LOGITS = 2e-6  # of the largest one: the error of the loss, and of log_scale's gradient, a sum of g z


def fused_distance(
    rows: Tensor, cols: Tensor, log_scale: Tensor, form: CrossEntropy, space: Space, plan: Plan | None = None
) -> Tensor:
    if isinstance(space, ProductSphere):
        return fused_geodesic(rows, cols, log_scale, form, space, plan)
    return fused_euclidean(rows, cols, log_scale, form, plan)


@pytest.fixture
def device() -> str:
    pytest.importorskip("triton", reason="Triton is not installed: the fused kernels are NOT tested")
    return "cuda" if torch.cuda.is_available() else "cpu"


def pairs(space: Space, n: int, m: int) -> tuple[Tensor, Tensor]:
    noise = torch.Generator().manual_seed(n + m)
    u, v = (space.project(torch.randn(k, space.dim, generator=noise)) for k in (n, m))
    matches = min(n, m)
    v[:matches] = space.project(v[:matches] + 0.5 * u[:matches])
    return u, v


def meeting(space: Space) -> tuple[Tensor, Tensor]:
    """Pairs that are identical, nearly so or opposite, and a stranger that is identical."""
    u, v = pairs(space, 13, 13)
    v[0], v[1], v[2], v[3] = u[0], -u[1], space.project(u[2] + 1e-3 * v[2]), u[12]
    return u, v


def loss_and_grads(compute, *inputs: Tensor) -> list[Tensor]:
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    loss = compute(*leaves)
    return [loss.detach().double(), *(g.double() for g in torch.autograd.grad(2.5 * loss, leaves))]


def check(space: Space, u: Tensor, v: Tensor, plan: Plan | None, form: CrossEntropy) -> None:
    t = torch.tensor(math.log(4.0), device=u.device)

    def eagerly(rows: Tensor, cols: Tensor, log_scale: Tensor) -> Tensor:
        return contrast(rows, cols, space=space, target=OneHot(), form=form, log_scale=log_scale, impl="eager")

    got = loss_and_grads(lambda *x: fused_distance(*x, form, space, plan), u, v, t)
    eager = loss_and_grads(eagerly, u, v, t)
    wanted = loss_and_grads(eagerly, u.double(), v.double(), t.double())
    logits = OF_LOGITS * 2.5 * 4 * float(-space.similarity(u.double(), v.double()).min())
    names = ("loss", "rows", "cols", "log_scale")
    for name, ours, theirs, truth in zip(names, got, eager, wanted, strict=True):
        error, peer = (float((x - truth).abs().max()) for x in (ours, theirs))
        extra = BUDGET[u.dtype] * float(truth.abs().max()) if name in {"rows", "cols"} else logits
        assert error <= peer + extra, f"{name}: {error:.2e} from float64, eager {peer:.2e}, and {extra:.2e} are allowed"


@pytest.mark.parametrize("dtype", BUDGET, ids=str)
@pytest.mark.parametrize("name", SPACES)
def test_no_further_from_float64_than_eager_and_rounding(device, name, dtype):
    check(SPACES[name], *(x.to(device, dtype) for x in pairs(SPACES[name], 18, 33)), PLAN, CrossEntropy())


@pytest.mark.parametrize("dtype", BUDGET, ids=str)
@pytest.mark.parametrize("name", ["euclidean", "geodesic"])
def test_points_that_meet_or_are_opposite(device, name, dtype):
    check(SPACES[name], *(x.to(device, dtype) for x in meeting(SPACES[name])), PLAN, CrossEntropy())


@pytest.mark.parametrize("dtype", BUDGET, ids=str)
def test_zero_vectors(device, dtype):
    """Two of them are at the same place, and each is at a right angle to everybody else, sphere by sphere."""
    space = SPACES["geodesic"]
    u, v = pairs(space, 13, 13)
    u[0], v[0], u[1, :8], v[2, 8:16], v[3] = 0, 0, 0, 0, 0
    check(space, *(x.to(device, dtype) for x in (u, v)), PLAN, CrossEntropy())


def test_spheres_of_more_dimensions_than_are_loaded_at_once(device):
    space = ProductSphere(40, 2, distance="geodesic")
    for dtype in BUDGET:
        check(space, *(x.to(device, dtype) for x in pairs(space, 18, 33)), PLAN, CrossEntropy())


def test_far_from_the_origin(device):
    """Squares of lengths are 10,000 times those of distances; the difference of such has no digit left."""
    u, v = (x.to(device) + 100 for x in pairs(Euclidean(8), 18, 18))
    check(Euclidean(8), u, v, PLAN, CrossEntropy())


@pytest.mark.parametrize("name", ["euclidean", "geodesic"])
def test_all_points_are_one(device, name):
    space = SPACES[name]
    point = space.project(torch.ones(18, space.dim)).to(device).requires_grad_()
    loss = fused_distance(point, point, torch.tensor(1.0, device=device), CrossEntropy(), space, PLAN)
    assert float(loss.detach()) == pytest.approx(math.log(18), abs=1e-6)
    assert float(torch.autograd.grad(loss, point)[0].abs().max()) == 0


def test_one_direction_and_one_side_that_wants_gradients(device):
    space = SPACES["euclidean"]
    u, v = (x.to(device) for x in pairs(space, 18, 17))
    check(space, u, v, PLAN, CrossEntropy("cols"))
    log_scale = torch.tensor(1.0, device=device)
    both = loss_and_grads(lambda a, b: fused_distance(a, b, log_scale, CrossEntropy(), space, PLAN), u, v)
    alone = loss_and_grads(lambda b: fused_distance(u, b, log_scale, CrossEntropy(), space, PLAN), v)
    assert torch.equal(alone[1], both[2])


def test_weights_of_all_spheres_together_are_bounded():
    for spheres in (1, 2, 3, 8, 64):
        for dtype in BUDGET:
            plan = plan_for(ProductSphere(4, spheres, distance="geodesic"), dtype)
            numbers = dtype.itemsize // 2  # float32 points have two
            assert plan.chunk_rows * plan.chunk_cols * spheres * numbers <= STORED


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", BUDGET, ids=str)
@pytest.mark.parametrize("space", [Euclidean(512), ProductSphere(64, 8, distance="geodesic")], ids=["flat", "arcs"])
def test_kernels_on_the_gpu(space, dtype):
    shrunk = 0.05 if isinstance(space, Euclidean) else 1  # or pairs would be so near that no gradient is left
    for n, m in ((2048, 2048), (200, 300)):
        check(space, *((shrunk * x).to("cuda", dtype) for x in pairs(space, n, m)), None, CrossEntropy())
