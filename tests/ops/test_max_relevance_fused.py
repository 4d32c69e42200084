"""The code book's kernels against torch in float64; without a GPU, Triton's interpreter runs them."""

from __future__ import annotations

import math

import pytest
import torch
from entmax import sparsemax as reference

from equipoise.ops import max_relevance as relevance
from equipoise.ops.max_relevance_fused import best_tokens, gathered_sums, thresholds
from equipoise.ops.sparsemax import sparsemax

pytest.importorskip("triton", reason="Triton is not installed: the fused kernels are NOT tested")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def made(samples: int, tokens: int, count: int, width: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    noise = torch.Generator().manual_seed(tokens)
    queries, codes = (torch.randn(*shape, generator=noise) for shape in ((samples, tokens, width), (count, width)))
    mask = torch.rand(samples, tokens, generator=noise) < 0.7
    mask[:, 0] = True
    return queries.to(DEVICE), mask.to(DEVICE), codes.to(DEVICE)


@pytest.mark.parametrize(("dtype", "unit"), [(torch.float32, 1e-5), (torch.bfloat16, 2**-8)], ids=str)
@pytest.mark.parametrize("tokens", [1, 20, 130])
def test_the_best_token_of_every_code(tokens, dtype, unit):
    queries, mask, codes = (x if x.dtype == torch.bool else x.to(dtype) for x in made(2, tokens, 131, 24))
    pooled, best = best_tokens(queries, mask, codes)
    scores = (queries.double() @ codes.double().T).masked_fill(~mask[..., None], -math.inf)
    wanted = scores.amax(1)
    assert float((pooled.double() - wanted).abs().max()) <= unit * float(wanted.abs().max())
    chosen = scores.gather(1, best[:, None].long())[:, 0]
    assert float((chosen - wanted).abs().max()) <= 1e-5 * float(wanted.abs().max())


def test_the_first_of_equal_tokens():
    queries, codes = torch.ones(1, 20, 16, device=DEVICE), torch.ones(3, 16, device=DEVICE)
    mask = torch.arange(20, device=DEVICE)[None] > 2
    assert best_tokens(queries, mask, codes)[1].tolist() == [[3, 3, 3]]


def test_thresholds_are_those_of_entmax():
    scores = torch.randn(5, 100, generator=torch.Generator().manual_seed(0)) * torch.tensor(
        [0.001, 0.1, 1, 10, 100])[:, None]  # fmt: skip
    scores[1] = 0
    scores[2, 50:] = -math.inf
    below = (scores - scores.amax(1, keepdim=True)).to(DEVICE)
    shares = (below - thresholds(below)).clamp(min=0).cpu().double()
    wanted = reference(scores.double().masked_fill(scores.isinf(), -1e9), 1)
    assert float((shares - wanted).abs().max()) < 2e-6


def test_a_row_without_scores_is_nan():
    assert thresholds(torch.full((1, 9), math.nan, device=DEVICE)).isnan().all()


def test_sums_of_gathered_rows():
    source = torch.arange(12.0, device=DEVICE).view(4, 3)
    weights, places, segments = torch.tensor([1.0, 2, 3]), torch.tensor([3, 0, 1]), torch.tensor([2, 0, 2])
    found = gathered_sums(source, *(x.to(DEVICE) for x in (weights, places, segments)), 4)
    assert found.tolist() == [[0, 2, 4], [0, 0, 0], [18, 22, 26], [0, 0, 0]]


def test_relevance_and_its_gradients_by_kernels_equal_those_by_torch(monkeypatch):
    queries, mask, codes = made(3, 20, 40, 24)
    weights = torch.randn(40, 24, generator=torch.Generator().manual_seed(9)).to(DEVICE)
    found = []
    for fused in (False, True):
        monkeypatch.setattr("equipoise.ops.max_relevance_fused.usable", lambda _, fused=fused: fused)
        leaves = [x.clone().requires_grad_() for x in (queries, codes)]
        shares = sparsemax(relevance.pooled_relevance(leaves[0], mask, leaves[1]) / 8)
        found.append([shares.detach(), *torch.autograd.grad((shares @ weights).square().sum(), leaves)])
    for plain, fused in zip(*found, strict=True):
        assert float((plain - fused).abs().max()) <= 1e-4 * float(plain.abs().max())
