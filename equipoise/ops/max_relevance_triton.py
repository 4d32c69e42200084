# mypy: allow-untyped-defs, allow-incomplete-defs, disable-error-code="untyped-decorator"
"""Triton kernels of the code book: the best token for every code, the threshold of a sparsemax, sparse sums of rows.

Needs Triton, which comes with torch for GPUs; imported only where it is used.
"""

from __future__ import annotations

import triton
import triton.language as tl

from equipoise.ops.triton_matmul import tile_product


@triton.jit
def best_tokens(
    queries, mask, codes, pooled, best, tokens, count, W: tl.constexpr, PRODUCTS: tl.constexpr,
    BT: tl.constexpr, BC: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """pooled, best [N, count]: the largest <q_j, c> of a sample's real tokens and its j, the first of those equal.
    Programs of the same codes follow one another. queries and codes are bfloat16, or pairs for three products:
    [high | low] in a row of 2W."""
    sample, first = tl.program_id(0), tl.program_id(1) * BC
    stride: tl.constexpr = W if PRODUCTS == 1 else 2 * W
    code = first + tl.arange(0, BC)
    k = tl.arange(0, BK)
    left = codes + tl.minimum(code, count - 1).to(tl.int64)[:, None] * stride + k[None, :]
    top = tl.full((BC,), float("-inf"), tl.float32)
    who = tl.zeros((BC,), tl.int32)
    start = 0
    while start < tokens:
        token = start + tl.arange(0, BT)
        at = sample.to(tl.int64) * tokens + tl.minimum(token, tokens - 1)
        right = queries + at[None, :] * stride + k[:, None]
        scores = tile_product(left, right, tl.zeros((BC, BT), tl.float32), W, W, PRODUCTS, BK)
        real = (tl.load(mask + at) != 0) & (token < tokens)
        scores = tl.where(real[None, :], scores, float("-inf"))
        high = tl.max(scores, 1)
        place = tl.argmax(scores, 1).to(tl.int32) + start
        who = tl.where(high > top, place, who)
        top = tl.maximum(top, high)
        start += BT
    to = sample.to(tl.int64) * count + code
    tl.store(pooled + to, top, mask=code < count)
    tl.store(best + to, who, mask=code < count)


@triton.jit
def thresholds(below, found, length, WIDE: tl.constexpr):
    """τ of one row per program, whose largest score is 0: Newton's steps, until the support is the same twice."""
    row, at = tl.program_id(0).to(tl.int64), tl.arange(0, WIDE)
    z = tl.load(below + row * length + at, mask=at < length, other=float("-inf"))
    low = tl.max(tl.where(at == 0, -1.0, -2.0), 0)
    count = tl.sum((z > low).to(tl.int32), 0)
    before = count * 0 - 1
    while count != before:
        total = tl.sum(tl.where(z > low, z, 0.0), 0)
        low = tl.maximum(low, (total - 1) / tl.maximum(count, 1).to(tl.float32))
        before = count
        count = tl.sum((z > low).to(tl.int32), 0)
    tl.store(found + row, tl.where(count > 0, low, float("nan")))


@triton.jit
def gathered_sums(source, weights, places, starts, total, W: tl.constexpr, BW: tl.constexpr):
    """total [S, W]: Σ of weights[e]·source[places[e]] over the entries e from starts[s] to starts[s + 1], in order."""
    segment, at = tl.program_id(0).to(tl.int64), tl.program_id(1) * BW + tl.arange(0, BW)
    entry, end = tl.load(starts + segment), tl.load(starts + segment + 1)
    found = tl.zeros((BW,), tl.float32)
    while entry < end:
        row = tl.load(places + entry)
        found += tl.load(weights + entry).to(tl.float32) * tl.load(source + row * W + at, mask=at < W, other=0.0).to(
            tl.float32
        )
        entry += 1
    tl.store(total + segment * W + at, found, mask=at < W)
