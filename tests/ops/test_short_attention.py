"""Attention of short samples against a loop in float64; without a GPU, Triton's interpreter runs the kernels."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from equipoise.ops.short_attention import short_attention

pytest.importorskip("triton", reason="Triton is not installed: the fused kernels are NOT tested")
LENGTHS = [[1], [5, 5, 5], [17, 1, 33, 16], [50, 50], [128, 3], [197, 197], [256, 130]]
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def aloud(qkv: Tensor, lengths: list[int], causal: bool) -> Tensor:
    """A sample and a head at a time; each sees its own sample alone."""
    samples = []
    for sample in qkv.split(lengths):
        heads = []
        for q, k, v in sample.permute(2, 1, 0, 3):
            scores = q @ k.T * q.shape[-1] ** -0.5
            if causal:
                scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -torch.inf)
            heads.append(scores.softmax(-1) @ v)
        samples.append(torch.stack(heads, 1))
    return torch.cat(samples)


def made(lengths: list[int], heads: int, dim: int, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    noise = torch.Generator().manual_seed(sum(lengths))
    qkv = torch.randn(sum(lengths), 3, heads, dim, generator=noise).to(DEVICE, dtype).requires_grad_()
    upstream = torch.randn(sum(lengths), heads, dim, generator=noise).to(DEVICE, dtype)
    return qkv, upstream, torch.tensor([0, *lengths], device=DEVICE).cumsum(0).int()


def error(got: Tensor, wanted: Tensor) -> float:
    assert got.isfinite().all()
    return float(((got.detach().double() - wanted).norm() / wanted.norm()).detach())


@pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.bfloat16, marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
def test_values_and_gradients_are_those_of_the_loop(lengths, causal, dtype):
    qkv, upstream, starts = made(lengths, heads=2, dim=16, dtype=dtype)
    even = len(set(lengths)) == 1
    got = short_attention(qkv, None if even else starts, max(lengths), causal)
    (grads,) = torch.autograd.grad(got, qkv, upstream)
    exact = qkv.detach().double().requires_grad_()
    wanted = aloud(exact, lengths, causal)
    (exact_grads,) = torch.autograd.grad(wanted, exact, upstream.double())
    most = 1e-6 if dtype == torch.float32 and DEVICE == "cpu" else 8e-3
    assert error(got, wanted) < most
    assert error(grads, exact_grads) < 2 * most
    if even:  # the same samples, told by where they start
        assert torch.equal(got, short_attention(qkv, starts, max(lengths), causal))


def test_a_sample_sees_no_other():
    qkv, upstream, starts = made([9, 20], heads=1, dim=32, dtype=torch.float32)
    one = short_attention(qkv, starts, 20, False)
    changed = torch.cat([qkv[:9], torch.randn_like(qkv[9:])])
    assert torch.equal(one[:9], short_attention(changed, starts, 20, False)[:9])
    (grads,) = torch.autograd.grad(one[:9], qkv, upstream[:9])
    assert not grads[9:].any()


def test_scores_may_be_large():
    qkv, _, starts = made([7, 30], heads=2, dim=16, dtype=torch.float32)
    large = (qkv.detach() * 60).requires_grad_()
    got = short_attention(large, starts, 30, True)
    assert error(got, aloud(large.detach().double(), [7, 30], True)) < 1e-4
    assert torch.autograd.grad(got.sum(), large)[0].isfinite().all()


def test_no_samples():
    qkv = torch.empty(0, 3, 2, 16, device=DEVICE)
    assert short_attention(qkv, None, 16, False).shape == (0, 2, 16)


def test_a_compiled_graph_holds_it_whole():
    """One graph, for every number of tokens: it is one operation, whose result has a known shape."""
    qkv, upstream, starts = made([4, 9], heads=1, dim=16, dtype=torch.float32)
    tests = ("test_schema", "test_faketensor")
    torch.library.opcheck(torch.ops.equipoise.short_attention.default, (qkv, starts, 9, True), test_utils=tests)
    compiled = torch.compile(lambda x, places: short_attention(x * 2, places, 9, True), fullgraph=True, backend="eager")
    got = compiled(qkv, starts)
    assert torch.equal(got, short_attention(qkv * 2, starts, 9, True))
    assert torch.autograd.grad(got, qkv, upstream)[0].isfinite().all()


@pytest.mark.slow
def test_a_compiled_graph_serves_every_length():
    compiled = torch.compile(
        lambda x, places, mask: short_attention(x * 2, places, mask.shape[1], True), fullgraph=True, backend="aot_eager"
    )
    for lengths in ([4, 9], [3, 3, 7], [12, 1], [20, 30, 2]):
        qkv, upstream, starts = made(lengths, heads=1, dim=16, dtype=torch.float32)
        mask = torch.ones(len(lengths), max(lengths), dtype=torch.bool, device=DEVICE)
        got, wanted = compiled(qkv, starts, mask), short_attention(qkv * 2, starts, max(lengths), True)
        assert torch.equal(got, wanted)
        assert torch.equal(*(torch.autograd.grad(x, qkv, upstream)[0] for x in (got, wanted)))
