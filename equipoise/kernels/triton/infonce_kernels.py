# mypy: allow-untyped-defs, allow-incomplete-defs, disable-error-code="untyped-decorator"
"""Triton kernels of the fused contrast: what is done to one tile of logits while it is on the chip.

    statistics   z -> log2 Σ_j 2^z_ij of the tile's rows and log2 Σ_i 2^z_ij of its columns
    gradient     g_ij = 2^(z_ij - a_i) + 2^(z_ij - b_j) - δ_ij·match_i,   Σ_ij g_ij z_ij

z = exp(t)·log2(e)·⟨u, v⟩ in units of log 2, for the hardware knows powers of two. a_i = log2-sum of row i less log2 of
its weight in the loss, so that a row without weight has a = ∞ and needs no branch; b_j likewise.

A tile is either computed here (`..._of_points`), and never leaves the chip, or read from memory (`..._of_products`),
where a matrix product of the vendor's library has put it. Points are bfloat16. A float32 point is two of them, its
rounded value and what the rounding lost: [high | low] in one row of 2d, and ⟨u, v⟩ is the sum of three
products, high·high + high·low + low·high, which leaves an error of about 2^-17 per entry. All sums are float32.

Needs Triton, which comes with torch for GPUs; imported only where it is used.
"""

from __future__ import annotations

import triton
import triton.language as tl

from equipoise.ops.triton_matmul import tile_product


@triton.jit
def statistics_of_points(
    rows, cols, scale, row_parts, col_parts, n, m,
    D: tl.constexpr, EVEN: tl.constexpr, PRODUCTS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """row_parts [tiles of columns, n] and col_parts [tiles of rows, m]: the log2-sums of each tile."""
    at_row, at_col = place(n, m, BM, BN, GROUP)
    inner = inner_products(rows, cols, at_row * BM, at_col * BN, n, m, D, D, PRODUCTS, BM, BN, BK)
    write_statistics(inner, scale, row_parts, col_parts, at_row, at_col, n, m, EVEN, BM, BN)


@triton.jit
def statistics_of_products(
    products, scale, row_parts, col_parts, n, m,
    WIDTH: tl.constexpr, EVEN: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    at_row, at_col = place(n, m, BM, BN, GROUP)
    inner = read(products, at_row, at_col, n, m, WIDTH, EVEN, BM, BN)
    write_statistics(inner, scale, row_parts, col_parts, at_row, at_col, n, m, EVEN, BM, BN)


@triton.jit
def gradient_of_points(
    rows, cols, scale, above_rows, above_cols, high, low, scale_parts,
    width, first_row, first_col, match, n, m,
    D: tl.constexpr, EVEN: tl.constexpr, PRODUCTS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """g of a chunk [n, m] of the matrix that begins at (first_row, first_col), into high (and low) [.., width]."""
    at_row, at_col = place(n, m, BM, BN, GROUP)
    inner = inner_products(rows, cols, at_row * BM, at_col * BN, n, m, D, D, PRODUCTS, BM, BN, BK)
    _write_gradient(
        inner, scale, above_rows, above_cols, high, low, scale_parts, at_row, at_col, n, m, width,
        first_row, first_col, match, EVEN, PRODUCTS, BM, BN,
    )  # fmt: skip


@triton.jit
def gradient_of_products(
    products, scale, above_rows, above_cols, high, low, scale_parts,
    width, first_row, first_col, match, n, m, WIDTH: tl.constexpr,
    EVEN: tl.constexpr, PRODUCTS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    at_row, at_col = place(n, m, BM, BN, GROUP)
    inner = read(products, at_row, at_col, n, m, WIDTH, EVEN, BM, BN)
    _write_gradient(
        inner, scale, above_rows, above_cols, high, low, scale_parts, at_row, at_col, n, m, width,
        first_row, first_col, match, EVEN, PRODUCTS, BM, BN,
    )  # fmt: skip


@triton.jit
def merge(parts, total, tiles, length, FRESH: tl.constexpr, DEEP: tl.constexpr, WIDE: tl.constexpr):
    """total [length] = the log2-sum of parts [tiles, length] and, unless FRESH, of what was there before."""
    here = tl.program_id(0) * WIDE + tl.arange(0, WIDE)
    inside = here < length
    if FRESH:
        top = tl.full((WIDE,), float("-inf"), tl.float32)
        rest = tl.zeros((WIDE,), tl.float32)
    else:
        top = tl.load(total + here, mask=inside, other=0.0)
        rest = tl.full((WIDE,), 1.0, tl.float32)
    start = 0
    while start < tiles:  # not a range: the interpreter has none of a length that is not known beforehand
        tile = start + tl.arange(0, DEEP)
        known = (tile[:, None] < tiles) & inside[None, :]
        part = tl.load(parts + tile[:, None].to(tl.int64) * length + here[None, :], mask=known, other=float("-inf"))
        higher = tl.maximum(top, tl.max(part, 0))
        rest = rest * tl.exp2(top - higher) + tl.sum(tl.exp2(part - higher[None, :]), 0)
        top = higher
        start += DEEP
    tl.store(total + here, top + tl.log2(rest), mask=inside)


@triton.jit
def paired(
    rows, cols, hits, n,
    D: tl.constexpr, PRODUCTS: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """hits [n]: ⟨u_i, v_i⟩, by the same products as everywhere, so that a pair alone costs exactly nothing."""
    row = (tl.program_id(0) * BM + tl.arange(0, BM)).to(tl.int64)
    stride: tl.constexpr = D if PRODUCTS == 1 else 2 * D
    total = tl.zeros((BM, BK), tl.float32)
    for start in range(0, D, BK):
        k = start + tl.arange(0, BK)
        at, inside = row[:, None] * stride + k[None, :], (row[:, None] < n) & (k[None, :] < D)
        u = tl.load(rows + at, mask=inside, other=0.0).to(tl.float32)
        v = tl.load(cols + at, mask=inside, other=0.0).to(tl.float32)
        total += u * v
        if PRODUCTS == 3:
            total += u * tl.load(cols + at + D, mask=inside, other=0.0).to(tl.float32)
            total += v * tl.load(rows + at + D, mask=inside, other=0.0).to(tl.float32)
    tl.store(hits + row, tl.sum(total, 1), mask=row < n)


@triton.jit
def place(n, m, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    """The tile of this program: GROUP tiles of rows share each tile of columns while it is in the cache."""
    number, down, across = tl.program_id(0), tl.cdiv(n, BM), tl.cdiv(m, BN)
    first = number // (GROUP * across) * GROUP
    size = tl.minimum(down - first, GROUP)
    inside = number % (GROUP * across)
    return first + inside % size, inside // size


@triton.jit
def inner_products(
    rows, cols, first_row, first_col, n, m, D: tl.constexpr, DEEP: tl.constexpr,
    PRODUCTS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """⟨u, v⟩ of a tile, of DEEP of the D dimensions. Beyond the last row and column those are repeated: a load without
    a mask is faster."""
    row = tl.minimum(first_row + tl.arange(0, BM), n - 1).to(tl.int64)
    col = tl.minimum(first_col + tl.arange(0, BN), m - 1).to(tl.int64)
    k = tl.arange(0, BK)
    stride: tl.constexpr = D if PRODUCTS == 1 else 2 * D
    left = rows + row[:, None] * stride + k[None, :]
    right = cols + col[None, :] * stride + k[:, None]
    return tile_product(left, right, tl.zeros((BM, BN), tl.float32), D, DEEP, PRODUCTS, BK)


@triton.jit
def read(
    products, at_row, at_col, n, m, WIDTH: tl.constexpr,
    EVEN: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    row, col = at_row * BM + tl.arange(0, BM), at_col * BN + tl.arange(0, BN)
    at = products + row[:, None].to(tl.int64) * WIDTH + col[None, :]
    if EVEN:
        return tl.load(at)
    return tl.load(at, mask=(row[:, None] < n) & (col[None, :] < m), other=0.0)


@triton.jit
def write_statistics(
    inner, scale, row_parts, col_parts, at_row, at_col, n, m,
    EVEN: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    z = inner * (tl.load(scale) * 1.4426950408889634)
    row, col = at_row * BM + tl.arange(0, BM), at_col * BN + tl.arange(0, BN)
    if not EVEN:
        z = tl.where((row[:, None] < n) & (col[None, :] < m), z, float("-inf"))
    top = tl.max(z, 1)
    row_sum = top + tl.log2(tl.sum(tl.exp2(z - top[:, None]), 1))
    tl.store(row_parts + at_col.to(tl.int64) * n + row, row_sum, mask=row < n)
    top = tl.max(z, 0)
    col_sum = top + tl.log2(tl.sum(tl.exp2(z - top[None, :]), 0))
    tl.store(col_parts + at_row.to(tl.int64) * m + col, col_sum, mask=col < m)


@triton.jit
def _write_gradient(
    inner, scale, above_rows, above_cols, high, low, scale_parts,
    at_row, at_col, n, m, width, first_row, first_col, match,
    EVEN: tl.constexpr, PRODUCTS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    g = logit_gradient(
        inner, scale, above_rows, above_cols, scale_parts, at_row, at_col, n, m,
        first_row, first_col, match, EVEN, BM, BN,
    )  # fmt: skip
    write_rounded(g, high, low, at_row, at_col, n, m, width, EVEN, PRODUCTS, BM, BN)


@triton.jit
def logit_gradient(
    inner, scale, above_rows, above_cols, scale_parts, at_row, at_col, n, m, first_row, first_col, match,
    EVEN: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """g of a tile whose logits are exp(t)·inner, 0 outside of the matrix; its part in the gradient of t is written."""
    z = inner * (tl.load(scale) * 1.4426950408889634)
    row, col = at_row * BM + tl.arange(0, BM), at_col * BN + tl.arange(0, BN)
    above_row = tl.load(above_rows + row, mask=row < n, other=float("inf"))
    above_col = tl.load(above_cols + col, mask=col < m, other=float("inf"))
    g = tl.exp2(z - above_row[:, None]) + tl.exp2(z - above_col[None, :])
    row_start, col_start = first_row + at_row * BM, first_col + at_col * BN
    if (row_start < col_start + BN) & (col_start < row_start + BM):
        same = (row_start + tl.arange(0, BM))[:, None] == (col_start + tl.arange(0, BN))[None, :]
        g = tl.where(same, g - tl.load(match + row, mask=row < n, other=0.0)[:, None], g)
    if not EVEN:
        g = tl.where((row[:, None] < n) & (col[None, :] < m), g, 0.0)
    tl.store(scale_parts + tl.program_id(0), tl.sum(tl.sum(g * z, 1), 0) * 0.6931471805599453)
    return g


@triton.jit
def write_rounded(
    value, high, low, at_row, at_col, n, m, width,
    EVEN: tl.constexpr, PRODUCTS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """A tile as bfloat16 or, for three products, as two of them; returns what was written, float32."""
    row, col = at_row * BM + tl.arange(0, BM), at_col * BN + tl.arange(0, BN)
    inside = (row[:, None] < n) & (col[None, :] < m)
    at = row[:, None].to(tl.int64) * width + col[None, :]
    rounded = value.to(tl.bfloat16)
    written = rounded.to(tl.float32)
    if EVEN:
        tl.store(high + at, rounded)
    else:
        tl.store(high + at, rounded, mask=inside)
    if PRODUCTS == 3:
        lost = (value - written).to(tl.bfloat16)
        written += lost.to(tl.float32)
        if EVEN:
            tl.store(low + at, lost)
        else:
            tl.store(low + at, lost, mask=inside)
    return written
