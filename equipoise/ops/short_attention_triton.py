# mypy: allow-untyped-defs, allow-incomplete-defs, disable-error-code="untyped-decorator"
"""Triton kernels of `short_attention.py`: a program has all tokens of one sample in one head.

    attend_short   up to 128 tokens: all scores at once; backward needs nothing but q, k and v
    attend_rows    up to 256: R rows of scores at a time, R columns in backward, which needs output and sums too

Needs Triton, which comes with torch for GPUs; imported only where it is used.
"""

from __future__ import annotations

import triton
import triton.language as tl

from equipoise.ops.triton_matmul import IN_FLOAT32


@triton.jit
def attend_short(
    qkv, out, starts, longest, scale,
    H: tl.constexpr, D: tl.constexpr, B: tl.constexpr, EVEN: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    first, length, head = _place(starts, longest, H, EVEN)
    q, k, v = _qkv(qkv, first, length, head, H, D, B)
    p = _shares(q, k, length, scale, B, CAUSAL)
    attended = _product(p.to(v.dtype), v)
    at, real = _rows(first, length, head, H * D, D, B)
    tl.store(out + at, attended.to(out.dtype.element_ty), mask=real)


@triton.jit
def attend_short_backward(
    qkv, upstream, grads, starts, longest, scale,
    H: tl.constexpr, D: tl.constexpr, B: tl.constexpr, EVEN: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """grads like qkv. With g = dL/dout: dv = pᵀg, and of scores ds = p·(gvᵀ - Σ_j p gvᵀ); dq = ds k, dk = dsᵀq."""
    first, length, head = _place(starts, longest, H, EVEN)
    q, k, v = _qkv(qkv, first, length, head, H, D, B)
    at, real = _rows(first, length, head, H * D, D, B)
    g = tl.load(upstream + at, mask=real, other=0.0)
    p = _shares(q, k, length, scale, B, CAUSAL)
    into, real = _rows(first, length, head, 3 * H * D, D, B)
    tl.store(grads + into + 2 * H * D, _product(tl.trans(p.to(g.dtype)), g).to(g.dtype), mask=real)
    dp = _product(g, tl.trans(v))
    ds = (p * (dp - tl.sum(p * dp, 1)[:, None]) * scale).to(g.dtype)
    tl.store(grads + into, _product(ds, k).to(g.dtype), mask=real)
    tl.store(grads + into + H * D, _product(tl.trans(ds), q).to(g.dtype), mask=real)


@triton.jit
def attend_rows(
    qkv, out, sums, starts, longest, scale,
    H: tl.constexpr, D: tl.constexpr, B: tl.constexpr, EVEN: tl.constexpr, CAUSAL: tl.constexpr, R: tl.constexpr,
):  # fmt: skip
    """sums [T, H]: log2 of each token's sum of 2^z, by which backward has its shares again."""
    first, length, head = _place(starts, longest, H, EVEN)
    _, k, v = _qkv(qkv, first, length, head, H, D, B)
    start = 0
    while start < length:
        at, real = _rows(first + start, length - start, head, 3 * H * D, D, R)
        z = _scores(tl.load(qkv + at, mask=real, other=0.0), k, start, 0, length, scale, R, B, CAUSAL)
        top = tl.max(z, 1)
        p = tl.exp2(z - top[:, None])
        total = tl.sum(p, 1)
        attended = _product(p.to(v.dtype), v) / total[:, None]
        into, real = _rows(first + start, length - start, head, H * D, D, R)
        tl.store(out + into, attended.to(v.dtype), mask=real)
        token = start + tl.arange(0, R)
        tl.store(sums + (first + token) * H + head, top + tl.log2(total), mask=token < length)
        start += R


@triton.jit
def attend_rows_backward(
    qkv, out, sums, upstream, grads, starts, longest, scale,
    H: tl.constexpr, D: tl.constexpr, B: tl.constexpr, EVEN: tl.constexpr, CAUSAL: tl.constexpr, R: tl.constexpr,
):  # fmt: skip
    """As `attend_short_backward`; Σ_j p gvᵀ is the product of g and the output."""
    first, length, head = _place(starts, longest, H, EVEN)
    whole, real = _rows(first, length, head, 3 * H * D, D, B)
    q = tl.load(qkv + whole, mask=real, other=0.0)
    at, real = _rows(first, length, head, H * D, D, B)
    g = tl.load(upstream + at, mask=real, other=0.0)
    mean = tl.sum(g.to(tl.float32) * tl.load(out + at, mask=real, other=0.0).to(tl.float32), 1)
    token = tl.arange(0, B)
    total = tl.load(sums + (first + token) * H + head, mask=token < length, other=0.0)
    for_q = tl.zeros((B, D), tl.float32)
    start = 0
    while start < length:
        here, there = _rows(first + start, length - start, head, 3 * H * D, D, R)
        k = tl.load(qkv + here + H * D, mask=there, other=0.0)
        v = tl.load(qkv + here + 2 * H * D, mask=there, other=0.0)
        z = _scores(q, k, 0, start, length, scale, B, R, CAUSAL)
        p = tl.exp2(z - total[:, None])
        tl.store(grads + here + 2 * H * D, _product(tl.trans(p.to(g.dtype)), g).to(g.dtype), mask=there)
        ds = (p * (_product(g, tl.trans(v)) - mean[:, None]) * scale).to(g.dtype)
        tl.store(grads + here + H * D, _product(tl.trans(ds), q).to(g.dtype), mask=there)
        for_q += _product(ds, k)
        start += R
    tl.store(grads + whole, for_q.to(g.dtype), mask=real)


@triton.jit
def _place(starts, longest, H: tl.constexpr, EVEN: tl.constexpr):
    """The first token of this program's sample, how many it has, and the head."""
    sample, head = tl.program_id(0) // H, tl.program_id(0) % H
    if EVEN:
        first = sample.to(tl.int64) * longest
        length = longest
    else:
        first = tl.load(starts + sample).to(tl.int64)
        length = tl.load(starts + sample + 1) - tl.load(starts + sample)
    return first, length, head


@triton.jit
def _rows(first, length, head, STRIDE: tl.constexpr, D: tl.constexpr, B: tl.constexpr):
    """Where a sample's tokens are, [B, D], and which of them it has."""
    token, k = tl.arange(0, B), tl.arange(0, D)
    at = (first + token)[:, None] * STRIDE + head * D + k[None, :]
    return at, (token < length)[:, None] & (k >= 0)[None, :]


@triton.jit
def _qkv(qkv, first, length, head, H: tl.constexpr, D: tl.constexpr, B: tl.constexpr):
    at, real = _rows(first, length, head, 3 * H * D, D, B)
    q = tl.load(qkv + at, mask=real, other=0.0)
    k = tl.load(qkv + at + H * D, mask=real, other=0.0)
    v = tl.load(qkv + at + 2 * H * D, mask=real, other=0.0)
    return q, k, v


@triton.jit
def _shares(q, k, length, scale, B: tl.constexpr, CAUSAL: tl.constexpr):
    """p [B, B]; rows beyond the sample have shares too, which nobody reads or which meet zeros."""
    z = _scores(q, k, 0, 0, length, scale, B, B, CAUSAL)
    p = tl.exp2(z - tl.max(z, 1)[:, None])
    return p / tl.sum(p, 1)[:, None]


@triton.jit
def _scores(q, k, row, col, length, scale, R: tl.constexpr, C: tl.constexpr, CAUSAL: tl.constexpr):
    """z [R, C] from this row and column on, in units of log 2, for the hardware knows powers of two."""
    z = _product(q, tl.trans(k)) * (scale * 1.4426950408889634)
    rows, cols = row + tl.arange(0, R)[:, None], col + tl.arange(0, C)[None, :]
    seen = (cols < length) & (rows >= 0)
    if CAUSAL:
        seen = seen & (cols <= rows)
    return tl.where(seen, z, float("-inf"))


@triton.jit
def _product(left, right):
    if IN_FLOAT32:
        left, right = left.to(tl.float32), right.to(tl.float32)
    return tl.dot(left, right, input_precision="ieee", out_dtype=tl.float32)  # of float32 numbers too
