"""The fused sigmoid contrast against float64: within the eager path's error and what rounding allows."""

from __future__ import annotations

import math

import pytest
import torch
from test_triton_infonce import CASES, DTYPES, LIBRARY, TILES, random_points
from torch import Tensor

from equipoise.forms import Sigmoid
from equipoise.kernels import Scoring, contrast
from equipoise.kernels.triton.launch_config import Plan
from equipoise.kernels.triton.sigmoid import fused_sigmoid
from equipoise.spaces import Sphere
from equipoise.targets import OneHot

LEARNED = Sigmoid(learned=True)
NAMES = ("loss", "rows", "cols", "log_scale", "bias")


@pytest.fixture
def device() -> str:
    pytest.importorskip("triton", reason="Triton is not installed: the fused kernels are NOT tested")
    return "cuda" if torch.cuda.is_available() else "cpu"


def loss_and_grads(inputs: tuple[Tensor, ...], compute) -> list[Tensor]:
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    loss = compute(*leaves)
    return [loss.detach().double(), *(g.double() for g in torch.autograd.grad(2.5 * loss, leaves))]


def eagerly(u: Tensor, v: Tensor, t: Tensor, b: Tensor) -> Tensor:
    return Scoring(Sphere(u.shape[1]), t, b).contrast(u, v, target=OneHot(), form=LEARNED, impl="eager")


def allowed(u: Tensor, v: Tensor, t: Tensor, b: Tensor) -> list[float]:
    """To a probability, what the logit's last digits and rounding change of it; to the loss, of every logit's cost."""
    u, v, scale, unit = u.double(), v.double(), float(t.exp()), 2e-4 if u.dtype == torch.float32 else 2**-7
    x = scale * u @ v.T + float(b)
    match = torch.eye(*x.shape, dtype=torch.bool, device=x.device)
    g = 2.5 * torch.where(match, (-x).sigmoid(), x.sigmoid()) / len(u)
    largest = scale * float((u.abs() @ v.abs().T).max()) + abs(float(b))
    blurred = (unit + 2**-21 * largest) * g
    costs = torch.where(match, -x, x)
    of_sums = 1e-5 * float((g * (x - float(b)).abs()).sum()) + 1e-6, 1e-5 * float(g.sum()) + 1e-6
    return [
        1e-6 * largest + 1e-6 * float(torch.nn.functional.softplus(costs).sum()) / len(u),
        *(scale * float(side.max()) + 1e-7 for side in (blurred @ v.abs(), blurred.T @ u.abs())),
        *(size + 2**-21 * largest * float((g * (1 + x.abs())).sum()) for size in of_sums),
    ]


def check(u: Tensor, v: Tensor, scale: float, bias: float, plan: Plan | None) -> None:
    t, b = (torch.tensor(value, device=u.device) for value in (math.log(scale), bias))
    got = loss_and_grads((u, v, t, b), lambda *x: fused_sigmoid(*x, LEARNED, plan))
    eager = loss_and_grads((u, v, t, b), eagerly)
    wanted = loss_and_grads(tuple(x.double() for x in (u, v, t, b)), eagerly)
    for name, ours, theirs, truth, extra in zip(NAMES, got, eager, wanted, allowed(u, v, t, b), strict=True):
        error, peer = (float((x - truth).abs().max()) for x in (ours, theirs))
        assert error <= peer + extra, f"{name}: {error:.2e} from float64, eager {peer:.2e}, and {extra:.2e} are allowed"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", ["ragged", *(pytest.param(c, marks=pytest.mark.slow) for c in CASES if c != "ragged")])
def test_no_further_from_float64_than_eager_and_rounding(device, case, dtype):
    *points, scale = CASES[case]
    check(*(x.to(device, dtype) for x in points), scale, -10.0, TILES)


def test_products_of_the_library(device):
    check(*(x.to(device) for x in random_points(40, 37, 24)), 20, -10.0, LIBRARY)


def test_costs_far_below_one_keep_their_digits(device):
    """All pairs nearly right: every one costs e⁻³⁰, which 1 + e⁻³⁰ forgets."""
    u, v = (torch.eye(3, 8, device=device) for _ in range(2))
    loss = fused_sigmoid(u, -v, torch.tensor(0.0, device=device), torch.tensor(-30.0, device=device), LEARNED, TILES)
    assert float(loss) - 31 == pytest.approx(0, abs=1e-5)
    off = fused_sigmoid(u[:1], v[1:2], *(torch.tensor(x, device=device) for x in (0.0, 30.0)), LEARNED, TILES)
    assert float(off) == pytest.approx(math.exp(-30), rel=1e-5)


def test_a_fixed_bias_and_the_door_of_contrast(device):
    u, v = (x.to(device) for x in random_points(9, 9, 16))
    parts = {"space": Sphere(16), "target": OneHot(), "form": Sigmoid(bias=-3.0), "log_scale": 2.0}
    fused, eager = (contrast(u, v, impl=impl, **parts) for impl in ("fused", "eager"))
    assert float(fused) == pytest.approx(float(eager), abs=1e-4)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("n", "m", "d"), [(1, 1, 100), (257, 1000, 100), (2048, 2048, 512)])
def test_kernels_on_the_gpu(n, m, d, dtype):
    check(*(x.to("cuda", dtype) for x in random_points(n, m, d)), 30, -10.0, None)
