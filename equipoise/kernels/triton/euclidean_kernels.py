# mypy: allow-untyped-defs, allow-incomplete-defs, disable-error-code="untyped-decorator"
"""Triton kernels of the fused contrast by Euclidean distances: what `infonce_kernels.py` does, of z = -exp(t)·‖u - v‖.

    ‖u - v‖² = ‖u‖² + ‖v‖² - 2⟨u, v⟩             w = g/‖u - v‖          ∂u_i = exp(t) Σ_j w_ij (v_j - u_i)

Where the square is below LOST_DIGITS of ‖u‖² + ‖v‖² anywhere in a tile (points that meet), the whole tile is computed
again from the vectors' differences: seldom, and then exact. Weights are rounded before their sums are taken, so that an
error of w is one of w (v - u), and vanishes with the distance.
"""

from __future__ import annotations

import triton
import triton.language as tl

from equipoise.kernels.triton.infonce_kernels import (
    inner_products,
    logit_gradient,
    place,
    write_rounded,
    write_statistics,
)

LOST_DIGITS = tl.constexpr(1e-3)


@triton.jit
def statistics_of_points(
    rows, cols, row_squares, col_squares, scale, row_parts, col_parts, n, m,
    D: tl.constexpr, EVEN: tl.constexpr, PRODUCTS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    at_row, at_col = place(n, m, BM, BN, GROUP)
    squares = _squares(rows, cols, row_squares, col_squares, at_row * BM, at_col * BN, n, m, D, PRODUCTS, BM, BN, BK)
    write_statistics(-tl.sqrt(squares), scale, row_parts, col_parts, at_row, at_col, n, m, EVEN, BM, BN)


@triton.jit
def gradient_of_points(
    rows, cols, row_squares, col_squares, scale, above_rows, above_cols, high, low, row_along, col_along, scale_parts,
    width, first_row, first_col, match, n, m,
    D: tl.constexpr, EVEN: tl.constexpr, PRODUCTS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """w of a chunk into high (and low), its sums over each tile's rows and columns into row_along [tiles of columns, n]
    and col_along [tiles of rows, m]."""
    at_row, at_col = place(n, m, BM, BN, GROUP)
    squares = _squares(rows, cols, row_squares, col_squares, at_row * BM, at_col * BN, n, m, D, PRODUCTS, BM, BN, BK)
    g = logit_gradient(
        -tl.sqrt(squares), scale, above_rows, above_cols, scale_parts, at_row, at_col, n, m,
        first_row, first_col, match, EVEN, BM, BN,
    )  # fmt: skip
    weight = tl.where(squares > 0, g * tl.rsqrt(tl.where(squares > 0, squares, 1.0)), 0.0)
    written = write_rounded(weight, high, low, at_row, at_col, n, m, width, EVEN, PRODUCTS, BM, BN)
    row, col = at_row * BM + tl.arange(0, BM), at_col * BN + tl.arange(0, BN)
    tl.store(row_along + at_col.to(tl.int64) * n + row, tl.sum(written, 1), mask=row < n)
    tl.store(col_along + at_row.to(tl.int64) * m + col, tl.sum(written, 0), mask=col < m)


@triton.jit
def _squares(
    rows, cols, row_squares, col_squares, first_row, first_col, n, m,
    D: tl.constexpr, PRODUCTS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Squared distances of a tile."""
    inner = inner_products(rows, cols, first_row, first_col, n, m, D, D, PRODUCTS, BM, BN, BK)
    row = tl.minimum(first_row + tl.arange(0, BM), n - 1)
    col = tl.minimum(first_col + tl.arange(0, BN), m - 1)
    lengths = tl.load(row_squares + row)[:, None] + tl.load(col_squares + col)[None, :]
    total = tl.maximum(lengths - 2 * inner, 0.0)
    margin = total - LOST_DIGITS * lengths
    if tl.min(tl.min(margin, 1), 0) <= 0:
        total = _careful(rows, cols, first_row, first_col, n, m, D, PRODUCTS, BM, BN)
    return total


@triton.jit
def _careful(
    rows, cols, first_row, first_col, n, m, D: tl.constexpr, PRODUCTS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """‖u - v‖² of a tile, from differences: slow, and exact where points meet."""
    stride: tl.constexpr = D if PRODUCTS == 1 else 2 * D
    row = tl.minimum(first_row + tl.arange(0, BM), n - 1).to(tl.int64)
    col = tl.minimum(first_col + tl.arange(0, BN), m - 1).to(tl.int64)
    left, right = rows + row * stride, cols + col * stride
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, D):
        u, v = tl.load(left + k).to(tl.float32), tl.load(right + k).to(tl.float32)
        if PRODUCTS == 3:
            u += tl.load(left + D + k).to(tl.float32)
            v += tl.load(right + D + k).to(tl.float32)
        apart = u[:, None] - v[None, :]
        total += apart * apart
    return total
