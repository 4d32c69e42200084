"""Sparsemax against the paper's own algorithm, which sorts, and against the package entmax."""

from __future__ import annotations

import math

import entmax
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import equipoise as eq
from equipoise.ops.sparsemax import sparsemax, sparsemax_by_sorting


def aloud(scores: list[float]) -> list[float]:
    """Martins & Astudillo 2016, Alg. 1."""
    ordered = sorted(scores, reverse=True)
    k = max(j for j in range(1, len(ordered) + 1) if 1 + j * ordered[j - 1] > math.fsum(ordered[:j]))
    tau = (math.fsum(ordered[:k]) - 1) / k
    return [max(z - tau, 0.0) for z in scores]


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@given(st.lists(st.floats(-50, 50).map(lambda x: round(x, 2)), min_size=1, max_size=40))
def test_equals_the_paper_read_aloud(scores):
    """Two decimals make ties."""
    got = sparsemax(torch.tensor(scores, dtype=torch.float64))
    torch.testing.assert_close(got, torch.tensor(aloud(scores), dtype=torch.float64), rtol=0, atol=1e-12)
    assert float(got.sum()) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("spread", [1e-4, 1e-2, 1.0, 30.0])
@pytest.mark.parametrize("count", [1, 2, 100, 24_576])
def test_equals_entmax(count, spread):
    scores = (spread * normal(3, count)).requires_grad_()
    theirs = scores.detach().clone().requires_grad_()
    upstream = normal(3, count, seed=1)
    mine, peer = eq.sparsemax(scores), entmax.sparsemax(theirs)
    torch.testing.assert_close(mine, peer, rtol=0, atol=1e-12)
    mine.backward(upstream)
    peer.backward(upstream)
    torch.testing.assert_close(scores.grad, theirs.grad, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dim", [0, 1, -1, -3])
def test_any_dimension(dim):
    scores = normal(4, 5, 6)
    torch.testing.assert_close(sparsemax(scores, dim), entmax.sparsemax(scores, dim), rtol=0, atol=1e-12)


def test_rows_of_one_kind():
    def check(scores: list[float], shares: list[float]) -> None:
        got = sparsemax(torch.tensor(scores, dtype=torch.float64))
        torch.testing.assert_close(got, torch.tensor(shares, dtype=torch.float64), rtol=0, atol=1e-15)

    inf = math.inf
    check([7.0] * 4, [0.25] * 4)
    check([1e300, 1e300, -1e300], [0.5, 0.5, 0])
    check([-1e300, -1e300], [0.5, 0.5])
    check([0.3, -inf, 0.3, -inf], [0.5, 0, 0.5, 0])
    check([-inf, -5.0], [0, 1])
    check([inf, 3.0, inf, -inf], [0.5, 0, 0.5, 0])
    check([1.0, 0.0], [1, 0])  # the second stands on the threshold
    assert sparsemax(torch.tensor([[-inf, -inf], [0.0, math.nan], [0.0, 3.0]]))[:2].isnan().all()
    assert sparsemax(torch.tensor([[-inf, -inf], [0.0, math.nan], [0.0, 3.0]]))[2].tolist() == [0, 1]
    assert sparsemax(torch.empty(0, 5)).shape == (0, 5)
    assert sparsemax(torch.tensor(3.0)) == 1


def test_masked_scores_are_as_if_they_were_not_there():
    scores = normal(5, 30)
    hidden = normal(5, 30, seed=2) > 0.5
    hidden[:, 0] = False
    got = sparsemax(scores.masked_fill(hidden, -math.inf))
    for row, mask, shares in zip(scores, hidden, got, strict=True):
        torch.testing.assert_close(shares[~mask], sparsemax(row[~mask]), rtol=0, atol=1e-14)
        assert not shares[mask].any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_smaller_floats_stay_distributions(dtype):
    scores = (0.001 * normal(4, 16_384)).to(dtype)
    shares = sparsemax(scores)
    assert shares.dtype == dtype
    exact = sparsemax(scores.double())
    torch.testing.assert_close(shares.double(), exact, rtol=0, atol=1e-6 if dtype == torch.float32 else 1e-3)


@pytest.mark.parametrize("spread", [0.05, 1.0])
def test_gradients_of_first_and_second_order(spread):
    scores = (spread * normal(3, 12)).requires_grad_()
    assert torch.autograd.gradcheck(sparsemax, scores)
    assert torch.autograd.gradgradcheck(sparsemax, scores)
    assert torch.autograd.gradcheck(lambda x: sparsemax(x, 0), scores)


def test_by_sorting_it_is_the_same():
    """The form of exported graphs, on few and many codes, ties and huge scores."""
    make = torch.Generator().manual_seed(0)
    for scores in (
        torch.randn(5, 3, generator=make).double(),
        0.01 * torch.randn(4, 500, generator=make).double(),
        1e6 * torch.randn(3, 40, generator=make).double(),
        torch.zeros(2, 7).double(),
    ):
        torch.testing.assert_close(sparsemax_by_sorting(scores), sparsemax(scores), atol=1e-9, rtol=0)
