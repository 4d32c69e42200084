# mypy: allow-untyped-defs, allow-incomplete-defs, disable-error-code="untyped-decorator"
"""Triton kernels of the fused sigmoid contrast: what is done to one tile of logits x = exp(t)·⟨u, v⟩ + b.

    statistics   Σ softplus(x)
    gradient     g = w σ(x), on the diagonal w (σ(x) - 1) = -w σ(-x), w = 1/N;   Σ g (x - b),   Σ g

With e = exp(-|x|), softplus(x) = max(x, 0) + log(1 + e) and σ(x) is 1/(1 + e) or e/(1 + e). Nearly all pairs are
no matches and e is small: log(1 + e) = 2 artanh(e/(2 + e)), a series in a number of at most 1/3, keeps the
digits that 1 + e would lose. Tiles are computed here or read, as in `infonce_kernels.py`. Where pairs have weights,
that of i and j counts (m_i + m_j)/2 times, for it is one of a row and one of a column.
"""

from __future__ import annotations

import triton
import triton.language as tl

from equipoise.kernels.triton.infonce_kernels import inner_products, place, read, write_rounded

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def statistics_of_points(
    rows, cols, scale, bias, row_weights, col_weights, parts, n, m,
    D: tl.constexpr, EVEN: tl.constexpr, WEIGHTED: tl.constexpr, PRODUCTS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """parts [tiles]: the sum of each tile."""
    at_row, at_col = place(n, m, BM, BN, GROUP)
    inner = inner_products(rows, cols, at_row * BM, at_col * BN, n, m, D, D, PRODUCTS, BM, BN, BK)
    _write_statistics(inner, scale, bias, row_weights, col_weights, parts, at_row, at_col, n, m, EVEN, WEIGHTED, BM, BN)


@triton.jit
def statistics_of_products(
    products, scale, bias, row_weights, col_weights, parts, n, m,
    WIDTH: tl.constexpr, EVEN: tl.constexpr, WEIGHTED: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    at_row, at_col = place(n, m, BM, BN, GROUP)
    inner = read(products, at_row, at_col, n, m, WIDTH, EVEN, BM, BN)
    _write_statistics(inner, scale, bias, row_weights, col_weights, parts, at_row, at_col, n, m, EVEN, WEIGHTED, BM, BN)


@triton.jit
def gradient_of_points(
    rows, cols, scale, bias, row_weights, col_weights, high, low, parts, width, first_row, first_col, weight, n, m,
    D: tl.constexpr, EVEN: tl.constexpr, WEIGHTED: tl.constexpr, PRODUCTS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """g of a chunk [n, m] that begins at (first_row, first_col), into high (and low) [.., width]; parts [2, tiles]."""
    at_row, at_col = place(n, m, BM, BN, GROUP)
    inner = inner_products(rows, cols, at_row * BM, at_col * BN, n, m, D, D, PRODUCTS, BM, BN, BK)
    _write_gradient(
        inner, scale, bias, row_weights, col_weights, high, low, parts, width, first_row, first_col, weight,
        at_row, at_col, n, m, EVEN, WEIGHTED, PRODUCTS, BM, BN,
    )  # fmt: skip


@triton.jit
def gradient_of_products(
    products, scale, bias, row_weights, col_weights, high, low, parts, width, first_row, first_col, weight, n, m,
    WIDTH: tl.constexpr, EVEN: tl.constexpr, WEIGHTED: tl.constexpr, PRODUCTS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    at_row, at_col = place(n, m, BM, BN, GROUP)
    inner = read(products, at_row, at_col, n, m, WIDTH, EVEN, BM, BN)
    _write_gradient(
        inner, scale, bias, row_weights, col_weights, high, low, parts, width, first_row, first_col, weight,
        at_row, at_col, n, m, EVEN, WEIGHTED, PRODUCTS, BM, BN,
    )  # fmt: skip


@triton.jit
def _write_statistics(
    inner, scale, bias, row_weights, col_weights, parts, at_row, at_col, n, m,
    EVEN: tl.constexpr, WEIGHTED: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    x = inner * tl.load(scale) + tl.load(bias)
    e = tl.exp2(-tl.abs(x) * LOG2_E)
    cost = tl.maximum(x, 0.0) + _log_of_one_and(e)
    row, col = at_row * BM + tl.arange(0, BM), at_col * BN + tl.arange(0, BN)
    if WEIGHTED:
        cost *= _weights(row_weights, col_weights, row, col, n, m)
    if not EVEN:
        cost = tl.where((row[:, None] < n) & (col[None, :] < m), cost, 0.0)
    tl.store(parts + tl.program_id(0), tl.sum(tl.sum(cost, 1), 0))


@triton.jit
def _weights(row_weights, col_weights, row, col, n, m):
    """How often each pair of a tile counts: the mean of its row's weight and its column's."""
    of_row = tl.load(row_weights + row, mask=row < n, other=0.0)
    of_col = tl.load(col_weights + col, mask=col < m, other=0.0)
    return (of_row[:, None] + of_col[None, :]) * 0.5


@triton.jit
def _log_of_one_and(e):
    """log(1 + e) for e in [0, 1]."""
    root = tl.rsqrt(2 + e)  # one instruction, where a division is many
    r = e * root * root
    square = r * r
    p = square * 0.15384615384615385 + 0.18181818181818182
    p = p * square + 0.2222222222222222
    p = p * square + 0.2857142857142857
    p = p * square + 0.4
    p = p * square + 0.6666666666666666
    return r * (p * square + 2)


@triton.jit
def _sigmoid(x):
    e = tl.exp2(-tl.abs(x) * LOG2_E)
    root = tl.rsqrt(1 + e)
    return tl.where(x < 0, e, 1.0) * root * root


@triton.jit
def _write_gradient(
    inner, scale, bias, row_weights, col_weights, high, low, parts, width, first_row, first_col, weight,
    at_row, at_col, n, m, EVEN: tl.constexpr, WEIGHTED: tl.constexpr, PRODUCTS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    z = inner * tl.load(scale)
    x = z + tl.load(bias)
    row, col = at_row * BM + tl.arange(0, BM), at_col * BN + tl.arange(0, BN)
    row_start, col_start = first_row + at_row * BM, first_col + at_col * BN
    matched = (row_start < col_start + BN) & (col_start < row_start + BM)
    if matched:
        x = tl.where((first_row + row)[:, None] == (first_col + col)[None, :], -x, x)
    g = _sigmoid(x) * weight
    if WEIGHTED:
        g *= _weights(row_weights, col_weights, row, col, n, m)
    if matched:
        g = tl.where((first_row + row)[:, None] == (first_col + col)[None, :], -g, g)
    if not EVEN:
        g = tl.where((row[:, None] < n) & (col[None, :] < m), g, 0.0)
    tl.store(parts + tl.program_id(0), tl.sum(tl.sum(g * z, 1), 0))
    tl.store(parts + tl.num_programs(0) + tl.program_id(0), tl.sum(tl.sum(g, 1), 0))
    write_rounded(g, high, low, at_row, at_col, n, m, width, EVEN, PRODUCTS, BM, BN)
