# mypy: allow-untyped-defs, allow-incomplete-defs, disable-error-code="untyped-decorator"
"""Triton kernel of `float8_linear.py`: rows rounded to 8 bits, each read once.

Needs Triton, which comes with torch for GPUs; imported only where it is used.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def round_rows(
    rows, rounded, scales, count, SMALLEST: tl.constexpr, LARGEST: tl.constexpr,
    K: tl.constexpr, BK: tl.constexpr, BR: tl.constexpr,
):  # fmt: skip
    """rounded [count, K] = rows / scale as e4m3, scales [count] = max|row| / LARGEST; a program has BR rows whole."""
    row = tl.program_id(0).to(tl.int64) * BR + tl.arange(0, BR)
    k = tl.arange(0, BK)
    at, inside = row[:, None] * K + k[None, :], (row[:, None] < count) & (k[None, :] < K)
    x = tl.load(rows + at, mask=inside, other=0.0).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(x), 1), SMALLEST) / LARGEST
    scale += tl.sum(x * 0.0, 1)  # NaN where a number of the row is NaN or infinite
    x = x / scale[:, None]
    x = tl.where(x > LARGEST, LARGEST, tl.where(x < -LARGEST, -LARGEST, x))
    tl.store(rounded + at, x.to(tl.float8e4nv), mask=inside)
    tl.store(scales + row, scale, mask=row < count)
