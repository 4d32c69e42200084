"""Relevance: how well the best token of a sample fits each code, in memory [N, C] instead of [N, P, C].

Chen et al. 2023 (FDT), Eq. 4 and 6.

    r_ic = max_{j real} <q_ij, c_c>        dL/dq_ij = Σ_{c : j = j*(i,c)} g_ic c_c        dL/dc_c = Σ_i g_ic q_ij*(i,c)

q [N, P, w] projected tokens, c [C, w] codes, j*(i,c) the token that fits best, g = dL/dr [N, C]. Forward visits a
chunk of samples and codes at a time and keeps r, float32 at least, and j* alone. Backward visits only the entries of g
that are not zero: behind a sparsemax these are the few codes with a share. On a GPU with Triton, kernels do the same
without writing a score that is not the best (`max_relevance_fused.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from equipoise.ops import max_relevance_fused

TILE = 2**22  # scores at a time
CODES = 2048  # at a time


def pooled_relevance(queries: Tensor, mask: Tensor, codes: Tensor) -> Tensor:
    """q [N, P, w], mask [N, P] (True where a token is real, somewhere in each row) and c [C, w] to r [N, C]."""
    pooled, _ = _best_tokens(queries, mask, codes)
    return pooled


def pooled_relevance_at_once(queries: Tensor, mask: Tensor, codes: Tensor) -> Tensor:
    """The same with all scores [N, P, C] in memory, in one step: for graphs that are exported."""
    return (queries @ codes.T).masked_fill(~mask[..., None], -torch.inf).amax(1)


@torch.library.custom_op("equipoise::best_tokens", mutates_args=())
def _best_tokens(queries: Tensor, mask: Tensor, codes: Tensor) -> tuple[Tensor, Tensor]:
    """r and j*; one operation for torch.compile, which could not look into its loops."""
    if max_relevance_fused.usable(queries):
        return max_relevance_fused.best_tokens(queries, mask, codes)
    pooled, best = _results(queries, mask, codes)
    padded = not bool(mask.all())
    for n, c in _tiles(len(queries), queries.shape[1], len(codes)):
        scores = queries[n] @ codes[c].T  # [n, P, c]
        if padded:
            scores.masked_fill_(~mask[n, :, None], -torch.inf)
        pooled[n, c], best[n, c] = scores.max(1)
    return pooled, best


@torch.library.custom_op("equipoise::best_tokens_backward", mutates_args=())
def _best_tokens_backward(upstream: Tensor, best: Tensor, queries: Tensor, codes: Tensor) -> tuple[Tensor, Tensor]:
    if max_relevance_fused.usable(queries):
        return max_relevance_fused.grads(upstream, best, queries, codes)
    flat = queries.flatten(0, 1)
    grad_queries, grad_codes = torch.zeros_like(flat), torch.zeros_like(codes)
    samples, chosen = upstream.nonzero(as_tuple=True)
    for n, c in zip(*(x.split(max(1, TILE // codes.shape[1])) for x in (samples, chosen)), strict=True):
        weights, tokens = upstream[n, c, None], n * queries.shape[1] + best[n, c]
        _add_rows(grad_queries, tokens, weights * codes[c])
        _add_rows(grad_codes, c, weights * flat[tokens])
    return grad_queries.view_as(queries), grad_codes


@_best_tokens.register_fake
def _results(queries: Tensor, _mask: Tensor, codes: Tensor) -> tuple[Tensor, Tensor]:
    exact = torch.promote_types(queries.dtype, torch.float32)
    pooled = queries.new_empty(len(queries), len(codes), dtype=exact)
    return pooled, torch.empty(pooled.shape, dtype=torch.int32, device=pooled.device)


@_best_tokens_backward.register_fake
def _(_upstream: Tensor, _best: Tensor, queries: Tensor, codes: Tensor) -> tuple[Tensor, Tensor]:
    return torch.empty_like(queries), torch.empty_like(codes)


def _keep(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor]) -> None:
    queries, _, codes = inputs
    ctx.save_for_backward(queries, codes, output[1])


def _grads(ctx: Any, upstream: Tensor, _of_places: None) -> tuple[Tensor | None, ...]:
    queries, codes, best = ctx.saved_tensors
    for_queries, for_codes = _best_tokens_backward(upstream, best, queries, codes)
    return for_queries, None, for_codes


_best_tokens.register_autograd(_grads, setup_context=_keep)


def _tiles(samples: int, tokens: int, codes: int) -> Iterator[tuple[slice, slice]]:
    """Chunks of samples and of codes that with all tokens make about `TILE` scores."""
    wide = min(codes, CODES)
    high = max(1, TILE // (tokens * wide))
    for n in range(0, samples, high):
        for c in range(0, codes, wide):
            yield slice(n, n + high), slice(c, c + wide)


def _add_rows(into: Tensor, rows: Tensor, values: Tensor) -> None:
    """into[rows] += values, where rows repeat, in the same order every time."""
    values = values.to(into.dtype)
    if into.is_cuda:
        into.index_put_((rows,), values, accumulate=True)  # on a GPU index_add_ adds in any order
    else:
        into.index_add_(0, rows, values)
