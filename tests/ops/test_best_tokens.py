"""Gradients of the code book's relevance by whole products, and its operations as torch.compile sees them."""

from __future__ import annotations

import pytest
import torch

from equipoise.ops import max_relevance_fused
from equipoise.ops.max_relevance import pooled_relevance
from equipoise.ops.sparsemax import sparsemax
from equipoise.readouts import CodeBookReadout
from equipoise.spaces import Sphere
from equipoise.types import Features, UserError


def made(samples: int = 5, tokens: int = 7, count: int = 12, width: int = 8) -> tuple[torch.Tensor, ...]:
    noise = torch.Generator().manual_seed(3)
    queries, codes, upstream = (
        torch.randn(*shape, generator=noise, dtype=torch.float64)
        for shape in ((samples, tokens, width), (count, width), (samples, count))
    )
    return queries, codes, upstream * (torch.rand(upstream.shape, generator=noise) < 0.6)


@pytest.mark.parametrize("written", [1, 170, 1 << 28], ids=["a sample at a time", "two", "all"])
def test_gradients_by_whole_products_are_those_of_the_best_tokens(written, monkeypatch):
    monkeypatch.setattr(max_relevance_fused, "WRITTEN", written)
    queries, codes, upstream = made()
    wanted = [x.clone().requires_grad_() for x in (queries, codes)]
    scores = wanted[0] @ wanted[1].T
    (scores.amax(1) * upstream).sum().backward()
    best = scores.argmax(1).int()
    for got, one in zip(max_relevance_fused.dense_grads(upstream, best, queries, codes), wanted, strict=True):
        assert torch.allclose(got, one.grad, atol=1e-6), "codes' are summed in float32"


@pytest.mark.parametrize("share", [0.0, 0.05, 1.0])
def test_half_precision_goes_by_whole_products_however_many_entries_are_zero(share, monkeypatch):
    """What is zero is never counted: on a GPU that would be to wait for it."""
    called = []
    for name in ("dense_grads", "sparse_grads"):
        monkeypatch.setattr(max_relevance_fused, name, lambda *_, name=name: called.append(name))
    upstream = (torch.arange(1000) < 1000 * share).float().view(10, 100)
    nothing = torch.zeros(10, 1, 4)
    for dtype in (torch.bfloat16, torch.float32):
        max_relevance_fused.grads(upstream, upstream, nothing.to(dtype), nothing)
    assert called == ["dense_grads", "sparse_grads"]


def test_the_operations_are_told_to_torch_rightly():
    queries, codes, _ = made(2, 3, 4, 5)
    mask = torch.tensor([[True, True, False], [True, False, False]])
    inputs = (queries.requires_grad_(), mask, codes.requires_grad_())
    torch.library.opcheck(torch.ops.equipoise.best_tokens.default, inputs)
    torch.library.opcheck(torch.ops.equipoise.sparsemax.default, (torch.randn(3, 6),))
    assert torch.autograd.gradcheck(lambda q, c: sparsemax(pooled_relevance(q, mask, c)), (inputs[0], inputs[2]))


@pytest.mark.slow
def test_a_compiled_code_book_is_one_graph():
    space = Sphere(8)
    config = CodeBookReadout.Config(codes=16)
    readout, book = config.build(6, space, "text"), config.shared(space)
    tokens = torch.randn(4, 5, 6, generator=torch.Generator().manual_seed(0))
    mask = torch.ones(4, 5, dtype=torch.bool)
    compiled = torch.compile(readout, backend="aot_eager", fullgraph=True)
    features = Features(tokens[:, :1], tokens, mask)
    assert torch.allclose(compiled(features, book), readout(features, book))
    mask[2] = False
    with pytest.raises(UserError, match="sample 2 of a batch has no tokens but padding"):
        compiled(features, book)
