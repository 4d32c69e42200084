"""Fused contrasts of pairs that have weights, against float64: within the eager path's error and what rounding allows.

A quarter of the pairs counts nothing at all, one twenty times as much as another.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from test_triton_infonce import LIBRARY, TILES, random_points
from test_triton_softclip import LIBRARY as SOFT_LIBRARY
from test_triton_softclip import SOFTCLIP, WEIGHTS, bound
from test_triton_softclip import random_points as soft_points
from torch import Tensor
from torch.nn import functional as F

from equipoise.data.source import HAS
from equipoise.forms import CrossEntropy, Form, Sigmoid
from equipoise.kernels import contrast
from equipoise.kernels.backends import Kernel, select_kernel
from equipoise.kernels.triton.euclidean import fused_euclidean
from equipoise.kernels.triton.geodesic import fused_geodesic
from equipoise.kernels.triton.infonce import fused_infonce
from equipoise.kernels.triton.sigmoid import fused_sigmoid
from equipoise.kernels.triton.softclip import fused_softclip
from equipoise.spaces import Euclidean, ProductSphere, Space, Sphere
from equipoise.targets import OneHot, Softened
from equipoise.targets.weighted import WeightedPairs
from equipoise.types import Batch

COUNT, DIM = 37, 24
LEARNED = Sigmoid(learned=True)
DTYPES = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)


@pytest.fixture
def device() -> str:
    pytest.importorskip("triton", reason="Triton is not installed: the fused kernels are NOT tested")
    return "cuda" if torch.cuda.is_available() else "cpu"


def weights_of(count: int, device: str) -> Tensor:
    weights = 0.05 + 0.95 * torch.rand(count, generator=torch.Generator().manual_seed(3))
    weights[::4] = 0
    return weights.to(device)


def loss_and_grads(inputs: tuple[Tensor, ...], compute: Callable[..., Tensor], by: Tensor) -> list[Tensor]:
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    losses = compute(*leaves)
    grads = torch.autograd.grad((losses * by.to(losses)).sum(), leaves)
    return [losses.detach().double(), *(g.double() for g in grads)]


def check(inputs: tuple[Tensor, ...], fused: Callable[..., Tensor], eager: Callable[..., Tensor], by: Tensor) -> None:
    """Rounding may add a few units of bfloat16, or of a pair of them, of the largest number of the same kind."""
    unit = 2**-6 if inputs[0].dtype == torch.bfloat16 else 2e-4
    found, peer = (loss_and_grads(inputs, compute, by) for compute in (fused, eager))
    truth = loss_and_grads(tuple(x.double() for x in inputs), eager, by)
    for number, (ours, theirs, true) in enumerate(zip(found, peer, truth, strict=True)):
        error, allowed = float((ours - true).abs().max()), float((theirs - true).abs().max())
        extra = (1e-5 if number == 0 else unit) * float(true.abs().max()) + 1e-6
        assert error <= allowed + extra, f"{number}: {error:.2e} from float64, eager {allowed:.2e}, {extra:.2e} allowed"


def eagerly(space: Space, weights: Tensor, form: Form) -> Callable[..., Tensor]:
    target = WeightedPairs(OneHot(), weights)

    def compute(u: Tensor, v: Tensor, t: Tensor, b: Tensor | None = None) -> Tensor:
        return contrast(u, v, space=space, target=target, form=form, log_scale=t, bias=b, impl="eager")

    return compute


def inputs_of(space: Space, dtype: torch.dtype, device: str, *scalars: float) -> tuple[Tensor, ...]:
    points = (space.project(x.to(device)).to(dtype) for x in random_points(COUNT, COUNT, DIM))
    return *points, *(torch.tensor(x, device=device) for x in scalars)


def relative(weights: Tensor) -> Tensor:
    return weights / weights.mean()


ONE = torch.tensor(2.5)
PLANS = pytest.mark.parametrize("plan", [TILES, LIBRARY], ids=["tiles", "library"])


@DTYPES
@PLANS
@pytest.mark.parametrize("direction", ["both", "rows"])
def test_inner_products(direction, plan, dtype, device):
    weights, form, space = weights_of(COUNT, device), CrossEntropy(direction), Sphere(DIM)
    fused = lambda *x: fused_infonce(*x, form, plan, relative(weights))  # noqa: E731
    check(inputs_of(space, dtype, device, math.log(20)), fused, eagerly(space, weights, form), ONE)


@DTYPES
def test_euclidean_distances(dtype, device):
    weights, form, space = weights_of(COUNT, device), CrossEntropy(), Euclidean(DIM)
    fused = lambda *x: fused_euclidean(*x, form, TILES, relative(weights))  # noqa: E731
    check(inputs_of(space, dtype, device, math.log(5)), fused, eagerly(space, weights, form), ONE)


@DTYPES
def test_geodesic_distances(dtype, device):
    weights, form, space = weights_of(COUNT, device), CrossEntropy(), ProductSphere(8, 3, distance="geodesic")
    fused = lambda *x: fused_geodesic(*x, form, space, TILES, relative(weights))  # noqa: E731
    check(inputs_of(space, dtype, device, math.log(5)), fused, eagerly(space, weights, form), ONE)


@DTYPES
@PLANS
def test_sigmoid(plan, dtype, device):
    weights, space = weights_of(COUNT, device), Sphere(DIM)
    fused = lambda *x: fused_sigmoid(*x, LEARNED, plan, relative(weights))  # noqa: E731
    inputs = inputs_of(space, dtype, device, math.log(20), -5.0)
    check(inputs, fused, eagerly(space, weights, LEARNED), ONE)


@pytest.mark.slow
@DTYPES
@pytest.mark.parametrize("gaps", [False, True])
def test_softclip(gaps, dtype, device):
    weights, target = weights_of(COUNT, device), Softened()
    index = torch.arange(COUNT, device=device)
    batch = Batch(index, index, index, index, {HAS + "regions": index % 5 != 0} if gaps else {})
    inputs = (*(x.to(device, dtype) for x in soft_points(COUNT, DIM)), torch.tensor(math.log(20), device=device))

    def fused(*x: Tensor) -> Tensor:
        own = bound(list(x[:4]), x[4], target, batch)
        return fused_softclip(*x[:2], x[4], SOFTCLIP, own, SOFT_LIBRARY, relative(weights))

    def eager(*x: Tensor) -> Tensor:
        own = WeightedPairs(bound(list(x[:4]), x[4], target, batch), weights)
        return contrast(*x[:2], space=Sphere(DIM), target=own, form=SOFTCLIP, log_scale=x[4], impl="eager")

    check(inputs, fused, eager, torch.tensor(WEIGHTS))


@pytest.mark.parametrize("form", [CrossEntropy(), Sigmoid()])
def test_contrast_hands_the_weights_on(form, device):
    """impl="fused" is the weighted loss, and equal weights are those of nobody, to rounding."""
    u, v = (x.to(device) for x in random_points(9, 9, 16))
    parts = {"space": Sphere(16), "form": form, "log_scale": 1.0}
    weights = weights_of(9, device)
    fused, eager = (
        contrast(u, v, target=WeightedPairs(OneHot(), weights), impl=i, **parts) for i in ("fused", "eager")
    )
    plain, equal = (
        contrast(u, v, target=target, impl="fused", **parts)
        for target in (OneHot(), WeightedPairs(OneHot(), torch.full((9,), 0.3, device=device)))
    )
    assert float(fused) == pytest.approx(float(eager), rel=1e-5)
    assert float(equal) == pytest.approx(float(plain), rel=1e-6)
    assert abs(float(fused) - float(plain)) > 1e-4


def test_auto_takes_kernels_of_weights_where_a_gpu_has_timed_them(device, monkeypatch):
    points, form = F.normalize(torch.randn(5, 16, device=device), dim=1), CrossEntropy()
    weighted = WeightedPairs(OneHot(), torch.ones(5, device=device)).sized(5, 5)
    for timed in (True, False):
        monkeypatch.setitem(select_kernel.__globals__["MEASURED_WEIGHTED"], "infonce", timed)
        plain, found = (select_kernel(points, Sphere(16), target, form) for target in (OneHot(), weighted))
        assert isinstance(plain, Kernel)
        assert isinstance(found, Kernel)
        assert plain.measured
        assert found.measured == timed


def test_what_has_no_kernel_has_none_with_weights(device):
    points = F.normalize(torch.randn(5, 16, device=device), dim=1)
    weighted = WeightedPairs(OneHot(), torch.ones(5, device=device))
    found = select_kernel(points.double(), Sphere(16), weighted, CrossEntropy())
    assert isinstance(found, str)
    assert "bfloat16" in found
