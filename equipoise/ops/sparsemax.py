"""Sparsemax: the distribution nearest to a vector of scores, most of it exactly zero.

Martins & Astudillo 2016, "From Softmax to Sparsemax: A Sparse Model of Attention and Multi-Label Classification",
Eq. 1 (definition), Eq. 2-3 (solution), Eq. 14 (derivative). The threshold is found as in Michelot 1986, which is
Newton's method on the piecewise linear Σ_i max(z_i - τ, 0) = 1 (Condat 2016, §3).

    p = argmin_{p in Δ} ‖p - z‖² = max(z - τ, 0)        τ such that Σ p = 1
    τ ← (Σ_{i in S} z_i - 1) / |S|,  S = {i : z_i > τ}    from τ = max z - 1, until S is the same twice
    dL/dz_i = g_i - mean_{j in S} g_j  for i in S, else 0

z [..., C] scores, g = dL/dp. The paper sorts all C scores. Here S only shrinks: a score that falls out never comes
back, so after each round the rest may be moved together, and the work is that of one look at the scores and a few at
what is left of them. A score of -inf gets nothing; where some are +inf, they share evenly, as in the limit. A row with
NaN, or of nothing but -inf, is NaN, as softmax has it. `softmax` gives every score a share; this rarely does.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from equipoise.ops import max_relevance_fused

SHRINK = 4  # what is left is moved together once it is a quarter or less; moving costs about two looks


def sparsemax(scores: Tensor, dim: int = -1) -> Tensor:
    """Scores to distributions over `dim`; differentiable, twice."""
    if scores.dtype in (torch.float16, torch.bfloat16):
        return sparsemax(scores.float(), dim).to(scores.dtype)
    last = scores.movedim(dim, -1) if scores.ndim else scores[None]
    shares: Tensor = _Sparsemax.apply(last)  # type: ignore[no-untyped-call]
    return shares.movedim(-1, dim) if scores.ndim else shares[0]


def sparsemax_by_sorting(scores: Tensor) -> Tensor:
    """The same over the last dimension as the paper has it (Algorithm 1), in as many steps whatever the scores: for
    graphs that are exported."""
    below = scores - scores.amax(-1, keepdim=True)
    ranked = below.sort(-1, descending=True).values
    sums = ranked.cumsum(-1)
    ranks = torch.arange(1, scores.shape[-1] + 1, dtype=scores.dtype, device=scores.device)
    inside = 1 + ranks * ranked > sums
    count = inside.to(scores.dtype).sum(-1, keepdim=True)
    total = (ranked * inside.to(scores.dtype)).sum(-1, keepdim=True)
    return (below - (total - 1) / count).clamp(min=0)


class _Sparsemax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        rows = scores.reshape(-1, scores.shape[-1])
        shares = torch.empty_like(rows) if rows.numel() == 0 else _project(rows)
        shares = shares.view(scores.shape)
        ctx.save_for_backward(shares)
        return shares

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Tensor:
        (shares,) = ctx.saved_tensors
        inside = shares.detach() > 0
        kept = upstream[0].masked_fill(~inside, 0)
        mean = kept.sum(-1, keepdim=True) / inside.sum(-1, keepdim=True).clamp(min=1)
        return (kept - mean).masked_fill(~inside, 0)


@torch.library.custom_op("equipoise::sparsemax", mutates_args=())
def _project(rows: Tensor) -> Tensor:
    """Rows [R, C] to distributions; one operation for torch.compile, which could not look into its loop."""
    top = rows.amax(-1, keepdim=True)
    below = rows - top  # at most 0, so that huge scores lose nothing
    if rows.is_cuda:  # one pass more, instead of waiting for the GPU to ask whether it is needed
        below.masked_fill_(rows == torch.inf, 0.0)
    elif bool(top.isinf().any()):
        below = torch.where(top == torch.inf, torch.where(rows == torch.inf, 0.0, -torch.inf).to(rows), below)
    return below.sub_(_threshold(below)).clamp_(min=0)


@_project.register_fake
def _(rows: Tensor) -> Tensor:
    return torch.empty_like(rows)


def _threshold(below: Tensor) -> Tensor:
    """τ [R, 1] of rows whose largest score is 0."""
    if below.shape[1] <= max_relevance_fused.LONGEST and max_relevance_fused.usable(below):
        return max_relevance_fused.thresholds(below)
    low = torch.full_like(below[:, :1], -1.0)
    before = torch.full_like(low, below.shape[1] + 1)
    while True:
        inside = below > low
        count = inside.sum(-1, keepdim=True)
        if bool((count == before).all()):
            return torch.where(count > 0, low, torch.nan)
        if int(count.max()) * SHRINK <= below.shape[1]:
            below = _compacted(below, inside, count)
            inside = below > low
        total = below.masked_fill(~inside, 0).sum(-1, keepdim=True)
        low = torch.maximum(low, (total - 1) / count.clamp(min=1))  # it only rises but for rounding
        before = count.to(low)


def _compacted(below: Tensor, inside: Tensor, count: Tensor) -> Tensor:
    """The scores inside the support moved to the left of each row, with -inf behind them."""
    row, _ = at = inside.nonzero(as_tuple=True)
    starts = count.cumsum(0)[:, 0] - count[:, 0]
    place = torch.arange(len(row), device=row.device) - starts[row]
    moved = below.new_full((len(below), max(1, int(count.max()))), -torch.inf)
    moved[row, place] = below[at]
    return moved
