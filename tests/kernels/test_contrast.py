"""Every space × target × form: eager against a brute-force oracle, tiled against eager, gradients in float64."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from every_space import NAMES, space_named
from torch import Tensor

from equipoise.forms import FORMS, CrossEntropy, Divergence
from equipoise.kernels import contrast
from equipoise.spaces import Sphere
from equipoise.targets import TARGETS, OneHot, Softened
from equipoise.types import Batch, Embeddings, UserError


def made(option):
    """An option of a dict of choices: a class, or an instance that is a preset."""
    return option() if isinstance(option, type) else option


def makes_sense(target: str, form: str) -> bool:
    try:
        made(FORMS[form]).check(made(TARGETS[target]))
    except UserError:
        return False
    return True


COMBINATIONS = [
    (space, target, form)
    for space, target, form in itertools.product(NAMES, TARGETS, FORMS)
    if makes_sense(target, form)
]


def points(space: str, n: int, seed: int, dim: int = 8) -> Tensor:
    return space_named(space, dim).project(torch.randn(n, dim, generator=torch.Generator().manual_seed(seed)).double())


def parts(space: str, target: str, form: str, dim: int = 8) -> dict:
    return {"space": space_named(space, dim), "target": made(TARGETS[target]), "form": made(FORMS[form])}


def batch_of(n: int) -> Batch:
    """Side data for every target: some captions and labels are the same."""
    index = torch.arange(n)
    return Batch(index, index, index, index, {"caption": index // 2 * 2 % 7, "label": index % 3})


def compared(u: Tensor, v: Tensor, t: Tensor, r: Tensor, a: Tensor, order: Tensor | None = None, **kwargs) -> Tensor:
    """`contrast` with the target bound to a batch: r and a are the guides' points."""
    batch = batch_of(len(u)) if order is None else batch_of(len(u)).map(lambda x: x[order])
    space, target = kwargs["space"], kwargs.pop("target")
    target = target.bind(Embeddings(u, v, r, a), batch, log_scale=t, space=space)
    return contrast(u, v, log_scale=t, target=target, **kwargs)


def loss_and_grads(*tensors: Tensor, **kwargs) -> list[Tensor]:
    """Of `compared`: the loss, and the gradients of u, v, t and, where the target has guides, of r and a."""
    leaves = [x.detach().clone().requires_grad_() for x in tensors]
    loss = compared(*leaves, **kwargs)
    grads = torch.autograd.grad(2.5 * loss, leaves, allow_unused=True)  # 2.5: the upstream gradient must be used
    return [loss.detach(), *(grad for grad in grads if grad is not None)]


def info_nce_by_hand(u: Tensor, v: Tensor, scale: float) -> float:
    """Radford et al. Fig. 3 read aloud: loops, float64, plain logarithms."""
    n = len(u)
    z = [
        [scale * sum(float(a) * float(b) for a, b in zip(u[i], v[j], strict=True)) for j in range(n)] for i in range(n)
    ]
    by_row = sum(-z[i][i] + math.log(sum(math.exp(z[i][j]) for j in range(n))) for i in range(n)) / n
    by_col = sum(-z[i][i] + math.log(sum(math.exp(z[j][i]) for j in range(n))) for i in range(n)) / n
    return (by_row + by_col) / 2


@pytest.mark.parametrize("n", [1, 2, 7])
def test_clip_loss_equals_the_paper_read_aloud(n):
    u, v = points("sphere", n, 1), points("sphere", n, 2)
    got = contrast(u, v, log_scale=1.3, impl="eager", **parts("sphere", "one_hot", "cross_entropy"))
    assert float(got) == pytest.approx(info_nce_by_hand(u, v, math.exp(1.3)), abs=1e-12)


def in_full(*first, combinations=COMBINATIONS):
    """Every combination as a parameter; a slow test unless it is on the sphere or the plainest in its space."""
    plain = {"one_hot", "cross_entropy"}
    return [
        pytest.param(*first, *parts, marks=() if parts[0] == "sphere" or set(parts[1:]) == plain else pytest.mark.slow)
        for parts in combinations
    ]


SIZES = [
    pytest.param(n, tile, *parts, marks=pytest.mark.slow)
    for n, tile in ((1, 4), (2, 1), (37, 64))
    for parts in COMBINATIONS
    if parts[0] == "sphere"
]


@pytest.mark.parametrize(("n", "tile", "space", "target", "form"), in_full(18, 5) + SIZES)
def test_tiled_equals_eager(n, tile, space, target, form):
    u, v, r, a = (points(space, n, seed) for seed in range(1, 5))
    # log(1 - q) magnifies rounding by 1 / (1 - q): at a small logit scale no q is near 1
    t = torch.tensor(0.0 if "complementary" in form else 2.6593, dtype=torch.float64)
    kwargs = parts(space, target, form)
    eager_results = loss_and_grads(u, v, t, r, a, impl="eager", **kwargs)
    assert len(eager_results) == (6 if kwargs["target"].guided else 4)
    for eager, tiled in zip(
        eager_results, loss_and_grads(u, v, t, r, a, impl="tiled", tile=tile, **kwargs), strict=True
    ):
        assert eager.isfinite().all()
        torch.testing.assert_close(tiled, eager, rtol=0, atol=1e-12 * max(1.0, float(eager.abs().max())))


@pytest.mark.parametrize(
    ("impl", "space", "target", "form"),
    in_full("eager")
    + [pytest.param("tiled", *parts, marks=pytest.mark.slow) for parts in COMBINATIONS if parts[0] == "sphere"],
)
def test_gradient_equals_finite_differences(impl, space, target, form):
    u, v, r, a = (points(space, 5, seed, dim=4).requires_grad_() for seed in range(3, 7))
    t = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    kwargs = parts(space, target, form, dim=4)
    inputs = (u, v, t, r, a) if kwargs["target"].guided else (u, v, t)

    def loss(*tensors: Tensor) -> Tensor:
        return compared(*tensors, *(r, a)[len(tensors) - 3 :], impl=impl, tile=2, **kwargs)

    assert torch.autograd.gradcheck(loss, inputs)


@pytest.mark.parametrize(("space", "target", "form"), COMBINATIONS)
def test_order_of_pairs_does_not_matter(space, target, form):
    u, v, r, a = (points(space, 12, seed) for seed in range(5, 9))
    t, shuffle = torch.tensor(0.0, dtype=torch.float64), torch.randperm(12)
    kwargs = parts(space, target, form)
    shuffled = compared(u[shuffle], v[shuffle], t, r[shuffle], a[shuffle], order=shuffle, **kwargs)
    torch.testing.assert_close(shuffled, compared(u, v, t, r, a, **kwargs), rtol=0, atol=1e-13)


@pytest.mark.parametrize("impl", ["eager", "tiled"])
@pytest.mark.parametrize("log_scale", [0.0, math.log(100.0), math.log(999.0)])
@pytest.mark.parametrize("kind", ["identical", "antipodal", "zero"])
def test_edges_are_finite(impl, log_scale, kind):
    u = torch.ones(6, 8) / 8**0.5
    v = {"identical": u, "antipodal": -u, "zero": torch.zeros_like(u)}[kind]
    t = torch.tensor(log_scale)
    result = loss_and_grads(u, v, t, u, v, impl=impl, tile=4, **parts("sphere", "one_hot", "cross_entropy"))
    assert all(torch.isfinite(x).all() for x in result)
    assert float(result[0]) == pytest.approx(math.log(6), rel=1e-3)  # all pairs alike: nothing can be told apart


def test_a_batch_of_one_has_no_loss():
    u, v = points("sphere", 1, 1), points("sphere", 1, 2)
    assert float(contrast(u, v, log_scale=3.0, **parts("sphere", "one_hot", "cross_entropy"))) == pytest.approx(0)


def test_rows_and_columns_may_differ_in_number():
    u, v = points("sphere", 6, 1), points("sphere", 9, 2)
    kwargs = parts("sphere", "one_hot", "cross_entropy")
    t = torch.tensor(1.0, dtype=torch.float64)
    for a, b in zip(
        loss_and_grads(u, v, t, u, u, impl="eager", **kwargs),
        loss_and_grads(u, v, t, u, u, impl="tiled", tile=4, **kwargs),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12 * max(1.0, float(b.abs().max())))


@pytest.mark.parametrize(
    ("kwargs", "sentence"),
    [
        ({"impl": "magic"}, "impl must be one of auto, eager, tiled, fused, not 'magic'"),
        ({"rows": torch.zeros(3, 5)}, r"rows must be points \[N, 8\] with N >= 1, not \[3, 5\]"),
        ({"cols": torch.zeros(0, 8)}, r"cols must be points \[N, 8\] with N >= 1, not \[0, 8\]"),
        ({"cols": torch.zeros(3, 8).double()}, "must share dtype and device"),
    ],
)
def test_bad_input_gets_a_sentence(kwargs, sentence):
    arguments = {"rows": torch.zeros(3, 8), "cols": torch.zeros(3, 8)} | kwargs
    with pytest.raises(UserError, match=sentence):
        contrast(
            arguments.pop("rows"), arguments.pop("cols"), **parts("sphere", "one_hot", "cross_entropy"), **arguments
        )


def test_auto_takes_tiles_for_large_batches():
    kwargs = parts("sphere", "one_hot", "cross_entropy")
    small, large = (points("sphere", n, 1).float().requires_grad_() for n in (8, 3000))
    assert "Tiled" not in contrast(small, small, **kwargs).grad_fn.name()
    assert "Tiled" in contrast(large, large, **kwargs).grad_fn.name()


class OfTheWhole(CrossEntropy):
    tileable = False


def test_a_form_that_needs_all_logits_is_eager_or_refused():
    u = torch.nn.functional.normalize(torch.randn(2100, 8, generator=torch.Generator().manual_seed(0)), dim=1)
    parts = {"space": Sphere(8), "target": OneHot(), "form": OfTheWhole()}
    eager = contrast(u, u, **{**parts, "form": CrossEntropy()}, impl="eager")
    assert torch.equal(contrast(u, u, **parts), eager)
    for impl in ("tiled", "fused"):
        with pytest.raises(UserError, match=f'impl="{impl}" .*OfTheWhole'):
            contrast(u, u, **parts, impl=impl)


def test_targets_of_blocks_make_up_the_whole():
    whole = OneHot().block(range(7), range(7), torch.zeros(1)).by_row
    pieced = torch.zeros(7, 7)
    for r, c in itertools.product((range(0, 3), range(3, 7)), (range(0, 2), range(2, 6), range(6, 7))):
        block = OneHot().block(r, c, torch.zeros(1)).by_row
        if block is not None:
            pieced[r.start : r.stop, c.start : c.stop] = block
    torch.testing.assert_close(pieced, whole)
    torch.testing.assert_close(whole, torch.eye(7))


@pytest.mark.parametrize("impl", ["eager", "tiled", "fused"])
@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        ("rows", "rows have a number that is not finite, first in row 2,"),
        ("cols", "cols have a number that is not finite, first in row 2,"),
        ("log_scale", "log_scale is nan"),
    ],
)
def test_inputs_that_are_not_finite_are_a_sentence(impl, broken, sentence):
    if impl == "fused":
        pytest.importorskip("triton", reason="Triton is not installed: the fused kernels are NOT tested")
    inputs = {"rows": torch.eye(4), "cols": torch.eye(4), "log_scale": torch.tensor(1.0)}
    if broken == "log_scale":
        inputs["log_scale"] *= math.nan
    else:
        inputs[broken][2:, 1] = math.inf
    with pytest.raises(UserError, match=sentence):
        contrast(**inputs, space=Sphere(4), target=OneHot(), form=CrossEntropy(), impl=impl)


def test_a_guide_that_is_not_finite_is_a_sentence():
    points, regions = torch.eye(4), torch.eye(4)
    regions[3, 0] = math.nan
    embeddings = Embeddings(image=points, text=points, regions=regions, tags=points)
    target = Softened().bind(embeddings, None, log_scale=1.0, space=Sphere(4))
    with pytest.raises(UserError, match=r"guide .*not finite.*row 3"):
        contrast(points, points, space=Sphere(4), target=target, form=Divergence(), log_scale=1.0)


def test_a_guide_on_another_device_is_a_sentence():
    points = torch.eye(4)
    embeddings = Embeddings(image=points, text=points, regions=points.to("meta"), tags=points)
    target = Softened().bind(embeddings, None, log_scale=1.0, space=Sphere(4))
    with pytest.raises(UserError, match="the points are on cpu and those of a guide on meta"):
        contrast(points, points, space=Sphere(4), target=target, form=Divergence(), log_scale=1.0)
