"""The code book's work by Triton kernels: no score but the best of each sample and code is ever written.

forward    best token of every sample and code, 2NPCw in bfloat16, or three times that for float32 (`split_bf16`)
backward   bfloat16: two products of all tokens and codes, 4NPCw, whatever is zero: nothing is read back from the GPU;
           float32: Σ over the entries of the gradient that are not zero, sorted by token and by code, nnz·w twice, no
           atomics, but the GPU is waited for to learn how many they are
"""

from __future__ import annotations

import torch
from torch import Tensor

from equipoise.ops.split_bf16 import split_bf16
from equipoise.ops.triton_support import why_unavailable

TOKENS, CODES, DEEP, WARPS = 128, 128, 64, 8  # what a program has of each at a time
WRITTEN = 1 << 28  # numbers at a time
LONGEST = 1 << 16  # a row of scores stays in one program's registers


def usable(numbers: Tensor) -> bool:
    """Whether the kernels can serve these numbers: on a GPU that runs them, in a type they know."""
    kinds = {torch.bfloat16, torch.float32}
    return numbers.is_cuda and numbers.dtype in kinds and why_unavailable(numbers, _smoke_test) is None


def best_tokens(queries: Tensor, mask: Tensor, codes: Tensor) -> tuple[Tensor, Tensor]:
    """The largest <q_j, c> [N, C], float32, and its j."""
    from equipoise.ops import max_relevance_triton

    (samples, tokens, width), count = queries.shape, len(codes)
    products = 1 if queries.dtype == torch.bfloat16 else 3
    pooled = queries.new_empty(samples, count, dtype=torch.float32)
    best = torch.empty(samples, count, dtype=torch.int32, device=queries.device)
    cut = {"BT": min(TOKENS, max(16, 1 << (tokens - 1).bit_length())), "BC": CODES, "BK": DEEP, "num_warps": WARPS}
    grid = (samples, -(-count // CODES))
    flat = split_bf16(queries.reshape(-1, width)), mask.to(torch.int8).contiguous(), split_bf16(codes)
    with torch.cuda.device_of(queries):
        max_relevance_triton.best_tokens[grid](*flat, pooled, best, tokens, count, W=width, PRODUCTS=products, **cut)
    return pooled, best


def thresholds(below: Tensor) -> Tensor:
    """τ [R, 1] of rows whose largest score is 0."""
    from equipoise.ops import max_relevance_triton

    found = below.new_empty(len(below), 1)
    with torch.cuda.device_of(below):
        wide = 1 << (below.shape[1] - 1).bit_length()
        grid = (len(below),)
        max_relevance_triton.thresholds[grid](below.contiguous(), found, below.shape[1], WIDE=wide, num_warps=8)
    return found


def grads(upstream: Tensor, best: Tensor, queries: Tensor, codes: Tensor) -> tuple[Tensor, Tensor]:
    """dL/dq and dL/dc, from dL/dr. Chosen by type alone: to count what is not zero is to wait for the GPU in every
    step, and where a code book learns (docs/codes.md), a fifth of the codes or more have a share."""
    dense = queries.dtype == torch.bfloat16
    return (dense_grads if dense else sparse_grads)(upstream, best, queries, codes)


def dense_grads(upstream: Tensor, best: Tensor, queries: Tensor, codes: Tensor) -> tuple[Tensor, Tensor]:
    """With dL/dr written out for every token, some samples at a time: 4NPCw, whatever is zero."""
    tokens, count = queries.shape[1], len(codes)
    for_queries, for_codes = torch.empty_like(queries), torch.zeros_like(codes, dtype=torch.float32)
    for n in torch.arange(len(queries)).split(max(1, WRITTEN // (tokens * count))):
        part = slice(int(n[0]), int(n[-1]) + 1)
        written = queries.new_zeros(len(n), tokens, count)
        written.scatter_(1, best[part, None].long(), upstream[part, None].to(written.dtype))
        for_queries[part] = written @ codes
        for_codes += written.flatten(0, 1).T @ queries[part].flatten(0, 1)
    return for_queries, for_codes.to(codes.dtype)


def sparse_grads(upstream: Tensor, best: Tensor, queries: Tensor, codes: Tensor) -> tuple[Tensor, Tensor]:
    """dL/dq and dL/dc, from dL/dr: nothing is done for its zeros."""
    flat = queries.reshape(-1, queries.shape[-1])
    samples, chosen = upstream.nonzero(as_tuple=True)
    weights, tokens = upstream[samples, chosen], samples * queries.shape[1] + best[samples, chosen]
    of_tokens = gathered_sums(codes, weights, chosen, tokens, len(flat))
    return of_tokens.view_as(queries), gathered_sums(flat, weights, tokens, chosen, len(codes))


def gathered_sums(source: Tensor, weights: Tensor, places: Tensor, segments: Tensor, count: int) -> Tensor:
    """[count, w]: row s is the sum of weights·source[places] where segments is s, always in the same order."""
    from equipoise.ops import max_relevance_triton

    order = segments.argsort(stable=True)
    starts = torch.zeros(count + 1, dtype=torch.int64, device=source.device)
    starts[1:] = torch.bincount(segments, minlength=count).cumsum(0)
    total, width = torch.empty(count, source.shape[1], dtype=source.dtype, device=source.device), source.shape[1]
    block = min(1024, 1 << (width - 1).bit_length())
    with torch.cuda.device_of(source):
        grid = (count, -(-width // block))
        max_relevance_triton.gathered_sums[grid](
            source.contiguous(), weights[order], places[order], starts, total, W=width, BW=block, num_warps=4
        )
    return total


def _smoke_test(device: torch.device) -> None:
    thresholds(torch.zeros(1, 64, device=device))
