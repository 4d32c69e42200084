"""Fused contrast against float64: within the eager path's error and what rounding to bfloat16 or to a pair allows.

Without a GPU, Triton's interpreter runs the kernels on the processor: few small tiles, so that blocks are ragged.
"""

from __future__ import annotations

import math
import sys

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from equipoise.forms import CrossEntropy, Divergence, Sigmoid
from equipoise.kernels import Scoring, contrast
from equipoise.kernels.triton.infonce import fused_infonce, smoke_test
from equipoise.kernels.triton.launch_config import Plan, Tile
from equipoise.ops.triton_support import why_unavailable
from equipoise.spaces import Euclidean, ProductSphere, Space, Sphere
from equipoise.targets import OneHot, Smoothed
from equipoise.types import UserError

SMALL = Tile(32, 32, 16)
TILES = Plan("tiles", SMALL, SMALL, chunk_rows=32, chunk_cols=64, partial_sums=1, sweep_cols=64)
LIBRARY = Plan("library", SMALL, SMALL, chunk_rows=32, chunk_cols=32)
DTYPES = [torch.bfloat16, torch.float32]


@pytest.fixture
def device() -> str:
    """Where Triton kernels run: a GPU, or the processor with the interpreter, which conftest.py asks for."""
    pytest.importorskip("triton", reason="Triton is not installed: the fused kernels are NOT tested")
    return "cuda" if torch.cuda.is_available() else "cpu"


def random_points(n: int, m: int, d: int) -> tuple[Tensor, Tensor]:
    noise = torch.Generator().manual_seed(1000 * n + 10 * m + d)
    u, v = (F.normalize(torch.randn(k, d, generator=noise), dim=1) for k in (n, m))
    matches = min(n, m)
    v[:matches] = F.normalize(v[:matches] + 0.3 * u[:matches], dim=1)
    return u, v


def far_from_learned(n: int) -> tuple[Tensor, Tensor]:
    """The best similarity is 0.05: a fixed shift by the scale would leave nothing of any exponential."""
    u, v = torch.zeros(n, 2 * n), torch.zeros(n, 2 * n)
    u[:, :n] = torch.eye(n)
    v[:, :n], v[:, n:] = 0.05 * torch.eye(n), math.sqrt(1 - 0.05**2) * torch.eye(n)
    return u, v


def one_huge(n: int) -> tuple[Tensor, Tensor]:
    u, v = random_points(n, n, 16)
    v[5] = -u[0]
    v[3] = u[3]
    return 3 * u, 3 * v  # a logit of 900 beside small ones


CASES = {
    "one": (*random_points(1, 1, 16), 100),
    "ragged": (*random_points(37, 37, 24), 20),
    "wide": (*random_points(20, 70, 33), 20),
    "tall": (*random_points(45, 9, 16), 20),
    "equal": (*(F.normalize(torch.ones(40, 8), dim=1) for _ in range(2)), 100),
    "far": (*far_from_learned(34), 100),
    "huge": (*one_huge(33), 100),
}


def loss_and_grads(u: Tensor, v: Tensor, log_scale: Tensor, compute) -> list[Tensor]:
    leaves = [x.detach().clone().requires_grad_() for x in (u, v, log_scale)]
    loss = compute(*leaves)
    return [loss.detach().double(), *(g.double() for g in torch.autograd.grad(2.5 * loss, leaves))]


def eagerly(form: CrossEntropy):
    return lambda u, v, t: Scoring(Sphere(u.shape[1]), t).contrast(u, v, target=OneHot(), form=form, impl="eager")


def allowed(u: Tensor, v: Tensor, log_scale: Tensor, form: CrossEntropy) -> list[float]:
    """What rounding may add: to the loss relative to the largest logit; to gradients relative to what they sum up, and,
    before a probability and its target cancel, what rounding the logits to float32 changes of the probability."""
    u, v, scale, unit = u.double(), v.double(), float(log_scale.exp()), 2e-4 if u.dtype == torch.float32 else 2**-7
    z = (scale * u @ v.T).requires_grad_()
    block = OneHot().block(range(len(u)), range(len(v)), z)
    g = 2.5 * torch.autograd.grad(form.finish(form.partial(z, block)), z)[0].abs()
    largest = scale * float((u.abs() @ v.abs().T).max())
    matches = 2.5 * torch.eye(len(u), len(v), device=u.device).double() / min(len(u), len(v))
    blurred = unit * g + 2**-22 * largest * (g + 2 * matches)
    return [
        1e-6 * largest + 1e-6,
        *(scale * float(x.max()) + 1e-6 for x in (blurred @ v.abs(), blurred.T @ u.abs())),
        2e-5 * float((g * z.detach().abs()).sum()) + float((blurred.diagonal() * z.detach().diagonal().abs()).sum()),
    ]


def check(u: Tensor, v: Tensor, scale: float, plan: Plan | None, form: CrossEntropy) -> None:
    log_scale = torch.tensor(math.log(scale), device=u.device)
    got = loss_and_grads(u, v, log_scale, lambda *x: fused_infonce(*x, form, plan))
    eager = loss_and_grads(u, v, log_scale, eagerly(form))
    wanted = loss_and_grads(u.double(), v.double(), log_scale.double(), eagerly(form))
    names, budget = ("loss", "rows", "cols", "log_scale"), allowed(u, v, log_scale, form)
    for name, ours, theirs, truth, extra in zip(names, got, eager, wanted, budget, strict=True):
        error, peer = (float((x - truth).abs().max()) for x in (ours, theirs))
        assert error <= peer + extra, f"{name}: {error:.2e} from float64, eager {peer:.2e}, and {extra:.2e} are allowed"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("case", ["ragged", *(pytest.param(c, marks=pytest.mark.slow) for c in CASES if c != "ragged")])
def test_no_further_from_float64_than_eager_and_rounding(device, case, dtype):
    *points, scale = CASES[case]
    check(*(x.to(device, dtype) for x in points), scale, TILES, CrossEntropy())


@pytest.mark.parametrize("direction", ["both", "rows", "cols"])
def test_products_of_the_library_and_one_direction(device, direction):
    *points, scale = CASES["wide"]
    check(*(x.to(device) for x in points), scale, LIBRARY, CrossEntropy(direction))
    check(*(x.to(device, torch.bfloat16) for x in points), scale, LIBRARY, CrossEntropy(direction))


def test_one_side_alone_wants_gradients(device):
    u, v = (x.to(device) for x in random_points(20, 20, 16))
    grads = []
    for wanting in ((True, True), (True, False), (False, True)):
        points = [x.clone().requires_grad_(wants) for x, wants in zip((u, v), wanting, strict=True)]
        fused_infonce(*points, torch.tensor(2.0, device=device), CrossEntropy(), TILES).backward()
        grads.append([x.grad for x in points])
    assert torch.equal(grads[1][0], grads[0][0])
    assert grads[1][1] is None
    assert grads[2][0] is None
    assert torch.equal(grads[2][1], grads[0][1])


def test_a_product_sphere_is_served_too(device):
    space, (u, v) = ProductSphere(8, 2), random_points(5, 5, 16)
    u, v = (space.project(x.to(device)) for x in (u, v))
    parts = {"space": space, "target": OneHot(), "form": CrossEntropy(), "log_scale": 1.0}
    loss, truth = (contrast(*points, impl=impl, **parts) for points, impl in (((u, v), "fused"), ((u, v), "eager")))
    assert float(loss) == pytest.approx(float(truth), abs=1e-5)


class Streets(Space):
    """A space of a user's own: as far as one walks."""

    range = (-math.inf, 0.0)

    def project(self, vectors: Tensor) -> Tensor:
        return vectors

    def similarity(self, rows: Tensor, cols: Tensor) -> Tensor:
        return -torch.cdist(rows, cols, p=1)


def fused_contrast(points: Tensor, **changed) -> Tensor:
    parts = {"space": Sphere(8), "target": OneHot(), "form": CrossEntropy(), **changed}
    return contrast(points, points, impl="fused", **parts)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"space": Streets(8)}, "the space Streets has no kernel yet"),
        ({"target": Smoothed(0.1)}, "the target _Smoothed has no kernel yet"),
        ({"form": Divergence("kl")}, "the form Divergence has no kernel yet"),
        ({"form": Sigmoid(), "space": Euclidean(8)}, "the form Sigmoid has no kernel yet .*by distances"),
    ],
    ids=["space", "smoothed", "divergence", "sigmoid"],
)
def test_a_combination_without_a_kernel_is_a_sentence(changed, sentence):
    with pytest.raises(UserError, match=sentence):
        fused_contrast(torch.eye(8), **changed)


def test_a_type_without_a_kernel_is_a_sentence():
    with pytest.raises(UserError, match=r"for bfloat16 and float32 points, not for torch\.float64"):
        fused_contrast(torch.eye(8).double())


def test_mixed_types_are_a_sentence():
    with pytest.raises(UserError, match="must share dtype and device"):
        contrast(
            torch.eye(8), torch.eye(8).bfloat16(), space=Sphere(8), target=OneHot(), form=CrossEntropy(), impl="fused"
        )


def test_a_processor_is_a_sentence(monkeypatch):
    pytest.importorskip("triton", reason="Triton is not installed: the fused kernels are NOT tested")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(UserError, match="the points are on the device cpu"):
        fused_contrast(torch.eye(8))


def test_no_triton_is_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(UserError, match="Triton is not installed"):
        fused_contrast(torch.eye(8))


def test_bfloat16_points_keep_their_temperature():
    u = torch.eye(4).bfloat16()
    log_scale = torch.tensor(math.log(100))
    loss = contrast(u, -u, space=Sphere(4), target=OneHot(), form=CrossEntropy(), log_scale=log_scale, impl="eager")
    assert float(loss) == pytest.approx(100 + math.log(3), rel=2**-8)  # a rounded log_scale makes it 98.9 + log 3


on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.gpu
@on_a_gpu
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("n", "m", "d"), [(1, 1, 100), (257, 1000, 100), (2048, 2048, 512)])
def test_kernels_on_the_gpu(n, m, d, dtype):
    """One pair, ragged tiles and dimensions, and tiles without a rest: each compiles kernels of its own."""
    check(*(x.to("cuda", dtype) for x in random_points(n, m, d)), 30, None, CrossEntropy())


@pytest.mark.gpu
@on_a_gpu
@pytest.mark.parametrize("products", ["tiles", "library"])
def test_chunks_on_the_gpu(products):
    plan = Plan(products, chunk_rows=512, chunk_cols=1024, partial_sums=1 << 10, sweep_cols=512)
    check(*(x.to("cuda", torch.bfloat16) for x in random_points(2048, 2048, 512)), 30, plan, CrossEntropy())


@pytest.mark.gpu
@on_a_gpu
def test_two_runs_are_the_same_bit_for_bit():
    points = [x.to("cuda", torch.bfloat16) for x in random_points(2048, 2048, 512)]
    log_scale = torch.tensor(3.0, device="cuda")
    first, second = (loss_and_grads(*points, log_scale, lambda *x: fused_infonce(*x, CrossEntropy())) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.gpu
@on_a_gpu
def test_auto_takes_the_kernels_where_there_are_any(monkeypatch):
    u, v = (x.to("cuda", torch.bfloat16) for x in random_points(2304, 2304, 512))
    parts = {"target": OneHot(), "form": CrossEntropy(), "log_scale": 1.0, "impl": "auto"}
    assert why_unavailable(u, smoke_test) is None
    module = sys.modules["equipoise.kernels.contrast"]  # by its name: the package shows the function
    monkeypatch.setattr(module, "tiled", lambda *_: pytest.fail("tiled was chosen"))
    assert float(contrast(u, v, space=Sphere(512), **parts)) > 0
