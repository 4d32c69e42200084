# mypy: allow-untyped-defs, allow-incomplete-defs, disable-error-code="untyped-decorator"
"""Triton kernels of the fused softened contrast: what is done to four numbers of every two samples i < j.

    z = z_ij,   y = z_ji   the logits of image i and text j, of image j and text i
    s = s_ij = s_ji        the score of rows' guide;   c = c_ij = c_ji   that of columns' guide

A pair is visited once, so a match never is, and serves four of the sides that are compared (logits with scores):

    image i (z, s)     text i (y, c)     along the tile's rows
    image j (y, s)     text j (z, c)     along its columns

    sums       of each side log2 Σ e^z and the mean of z - s weighted by e^z, log2 Σ e^s and the mean weighted by e^s
    gradient   q = 2^(z - a), p = 2^(s - b):   ∂z = q (k₁ + k₂ (z - s)) + k₃ p,   ∂s = p (k₄ + k₃ (z - s)) - k₂ q

with a, b and k₁ to k₄ six numbers of a side (`softened_sums.py`). What belongs to no pair has the logarithm NOTHING.
Tiles are computed here (`..._of_points`) or read (`..._of_products`), as in `fused_tiles.py`.
"""

from __future__ import annotations

import triton
import triton.language as tl

from equipoise.kernels.fused_tiles import inner_products, place, write_rounded

LOG2_E = tl.constexpr(1.4426950408889634)
NOTHING = tl.constexpr(-1e30)  # a logarithm of zero whose differences are finite


@triton.jit
def sums_of_points(
    u, v, r, a, v_right, u_right, r_right, a_right, scales, parts, first_row, first_col, n, m,
    D: tl.constexpr, DR: tl.constexpr, DA: tl.constexpr, PRODUCTS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """parts: the sums of each tile, [tiles of columns, 8, n] of its rows, then [tiles of rows, 8, m] of its columns;
    four of images, four of texts."""
    at_row, at_col = place(n, m, BM, BN, GROUP)
    z = inner_products(u, v_right, at_row * BM, at_col * BN, n, m, D, D, PRODUCTS, BM, BN, BK)
    s = inner_products(r, r_right, at_row * BM, at_col * BN, n, m, DR, DR, PRODUCTS, BM, BN, BK)
    y = inner_products(v, u_right, at_row * BM, at_col * BN, n, m, D, D, PRODUCTS, BM, BN, BK)
    c = inner_products(a, a_right, at_row * BM, at_col * BN, n, m, DA, DA, PRODUCTS, BM, BN, BK)
    _write_sums(z, y, s, c, scales, parts, at_row, at_col, first_row, first_col, n, m, BM, BN)


@triton.jit
def sums_of_products(
    products, scales, parts, first_row, first_col, n, m,
    PLANE: tl.constexpr, WIDTH: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    at_row, at_col = place(n, m, BM, BN, GROUP)
    z, y, s, c = _read(products, at_row, at_col, first_row, first_col, n, m, PLANE, WIDTH, BM, BN)
    _write_sums(z, y, s, c, scales, parts, at_row, at_col, first_row, first_col, n, m, BM, BN)


@triton.jit
def gradient_of_points(
    u, v, r, a, v_right, u_right, r_right, a_right, scales, sides, matches, high, low, scale_parts, count, width,
    first_row, first_col, n, m, D: tl.constexpr, DR: tl.constexpr, DA: tl.constexpr, PLANE: tl.constexpr,
    ROW_GUIDE: tl.constexpr, COL_GUIDE: tl.constexpr, EVEN: tl.constexpr, PRODUCTS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """∂z, ∂y, ∂s, ∂c of a chunk [n, m] that begins at (first_row, first_col), into high (and low) [4, .., width]."""
    at_row, at_col = place(n, m, BM, BN, GROUP)
    z = inner_products(u, v_right, at_row * BM, at_col * BN, n, m, D, D, PRODUCTS, BM, BN, BK)
    s = inner_products(r, r_right, at_row * BM, at_col * BN, n, m, DR, DR, PRODUCTS, BM, BN, BK)
    y = inner_products(v, u_right, at_row * BM, at_col * BN, n, m, D, D, PRODUCTS, BM, BN, BK)
    c = inner_products(a, a_right, at_row * BM, at_col * BN, n, m, DA, DA, PRODUCTS, BM, BN, BK)
    _write_gradient(
        z, y, s, c, scales, sides, matches, high, low, scale_parts, count, width, at_row, at_col,
        first_row, first_col, n, m, PLANE, ROW_GUIDE, COL_GUIDE, EVEN, PRODUCTS, BM, BN,
    )  # fmt: skip


@triton.jit
def gradient_of_products(
    products, scales, sides, matches, high, low, scale_parts, count, width, first_row, first_col, n, m,
    WIDTH: tl.constexpr, PLANE: tl.constexpr, ROW_GUIDE: tl.constexpr, COL_GUIDE: tl.constexpr,
    EVEN: tl.constexpr, PRODUCTS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    at_row, at_col = place(n, m, BM, BN, GROUP)
    z, y, s, c = _read(products, at_row, at_col, first_row, first_col, n, m, PLANE, WIDTH, BM, BN)
    _write_gradient(
        z, y, s, c, scales, sides, matches, high, low, scale_parts, count, width, at_row, at_col,
        first_row, first_col, n, m, PLANE, ROW_GUIDE, COL_GUIDE, EVEN, PRODUCTS, BM, BN,
    )  # fmt: skip


@triton.jit
def merge_sums(
    parts, total, first_row, first_col, n, m, count,
    BM: tl.constexpr, BN: tl.constexpr, DEEP: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """total [2, 8, count]: what a chunk's parts and what was there before make together, of samples as rows and, apart
    from it, as columns (the program's third number). The second is one of four logarithms; its mean follows it."""
    is_col = tl.program_id(2) == 1
    tiles, length = tl.where(is_col, tl.cdiv(n, BM), tl.cdiv(m, BN)), tl.where(is_col, m, n)
    parts += tl.where(is_col, tl.cdiv(m, BN).to(tl.int64) * 8 * n, 0)
    here, number = tl.program_id(0) * WIDE + tl.arange(0, WIDE), 2 * tl.program_id(1)
    inside = here < length
    to = total + (tl.program_id(2) * 8 + number).to(tl.int64) * count + tl.where(is_col, first_col, first_row) + here
    top = tl.load(to, mask=inside, other=0.0)
    weight = tl.full((WIDE,), 1.0, tl.float32)
    mean = tl.load(to + count, mask=inside, other=0.0)
    start = 0
    while start < tiles:  # not a range: the interpreter has none of a length that is not known beforehand
        tile = start + tl.arange(0, DEEP)
        known = (tile[:, None] < tiles) & inside[None, :]
        at = parts + (tile[:, None].to(tl.int64) * 8 + number) * length + here[None, :]
        part = tl.load(at, mask=known, other=NOTHING)
        higher = tl.maximum(top, tl.max(part, 0))
        before, share = tl.exp2(top - higher), tl.exp2(part - higher[None, :])
        weight = weight * before + tl.sum(share, 0)
        mean = mean * before + tl.sum(share * tl.load(at + length, mask=known, other=0.0), 0)
        top = higher
        start += DEEP
    tl.store(to, top + tl.log2(weight), mask=inside)
    tl.store(to + count, mean / weight, mask=inside)


@triton.jit
def _pairs(at_row, at_col, first_row, first_col, n, m, BM: tl.constexpr, BN: tl.constexpr):
    """Bool [BM, BN]: where two samples i < j of the matrix meet."""
    row, col = at_row * BM + tl.arange(0, BM), at_col * BN + tl.arange(0, BN)
    return (row[:, None] < n) & (col[None, :] < m) & ((first_row + row)[:, None] < (first_col + col)[None, :])


@triton.jit
def _read(
    products, at_row, at_col, first_row, first_col, n, m,
    PLANE: tl.constexpr, WIDTH: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """The four products of a tile, nothing where there is no pair: what is not used is not read."""
    row, col = at_row * BM + tl.arange(0, BM), at_col * BN + tl.arange(0, BN)
    at = products + row[:, None].to(tl.int64) * WIDTH + col[None, :]
    pairs = _pairs(at_row, at_col, first_row, first_col, n, m, BM, BN)
    z = tl.load(at, mask=pairs, other=0.0)
    y = tl.load(at + PLANE, mask=pairs, other=0.0)
    s = tl.load(at + 2 * PLANE, mask=pairs, other=0.0)
    c = tl.load(at + 3 * PLANE, mask=pairs, other=0.0)
    return z, y, s, c


@triton.jit
def _write_sums(
    z, y, s, c, scales, parts, at_row, at_col, first_row, first_col, n, m,
    BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    pairs = _pairs(at_row, at_col, first_row, first_col, n, m, BM, BN)
    scale = tl.load(scales)
    z, y = tl.where(pairs, z * scale, NOTHING), tl.where(pairs, y * scale, NOTHING)
    s, c = tl.where(pairs, s * tl.load(scales + 1), NOTHING), tl.where(pairs, c * tl.load(scales + 2), NOTHING)
    row, col = at_row * BM + tl.arange(0, BM), at_col * BN + tl.arange(0, BN)
    along_row = parts + at_col.to(tl.int64) * 8 * n + row
    along_col = parts + tl.cdiv(m, BN).to(tl.int64) * 8 * n + at_row.to(tl.int64) * 8 * m + col
    _write_side(z, s, along_row, n, row < n, 1)
    _write_side(y, c, along_row + 4 * n, n, row < n, 1)
    _write_side(y, s, along_col, m, col < m, 0)
    _write_side(z, c, along_col + 4 * m, m, col < m, 0)


@triton.jit
def _write_side(logits, scores, parts, length, inside, AXIS: tl.constexpr):
    apart = logits - scores
    log_sum, mean = _weighed(logits, apart, AXIS)
    tl.store(parts, log_sum, mask=inside)
    tl.store(parts + length, mean, mask=inside)
    log_sum, mean = _weighed(scores, apart, AXIS)
    tl.store(parts + 2 * length, log_sum, mask=inside)
    tl.store(parts + 3 * length, mean, mask=inside)


@triton.jit
def _weighed(logs, apart, AXIS: tl.constexpr):
    """log2 Σ e^logs along AXIS, and the mean of `apart` by these weights."""
    top = tl.max(logs, AXIS)
    weights = tl.exp2((logs - tl.expand_dims(top, AXIS)) * LOG2_E)
    total = tl.sum(weights, AXIS)
    return top * LOG2_E + tl.log2(total), tl.sum(weights * apart, AXIS) / total


@triton.jit
def _write_gradient(
    z, y, s, c, scales, sides, matches, high, low, scale_parts, count, width, at_row, at_col,
    first_row, first_col, n, m, PLANE: tl.constexpr, ROW_GUIDE: tl.constexpr, COL_GUIDE: tl.constexpr,
    EVEN: tl.constexpr, PRODUCTS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """sides [2, 6, count], matches [3, count]: ∂z, ∂s and ∂c of samples with themselves, which go on the diagonal."""
    pairs = _pairs(at_row, at_col, first_row, first_col, n, m, BM, BN)
    row, col = at_row * BM + tl.arange(0, BM), at_col * BN + tl.arange(0, BN)
    i, j, texts = sides + first_row + row, sides + first_col + col, 6 * count
    scale, of_rows, of_cols = tl.load(scales), tl.load(scales + 1), tl.load(scales + 2)
    z, y, s, c = z * scale, y * scale, s * of_rows, c * of_cols
    dz, ds = _pulled(z, s, i, count, row < n, 1)
    dy, ds_too = _pulled(y, s, j, count, col < m, 0)
    dy_too, dc = _pulled(y, c, i + texts, count, row < n, 1)
    dz_too, dc_too = _pulled(z, c, j + texts, count, col < m, 0)
    dz, dy = tl.where(pairs, dz + dz_too, 0.0), tl.where(pairs, dy + dy_too, 0.0)
    ds, dc = tl.where(pairs, ds + ds_too, 0.0), tl.where(pairs, dc + dc_too, 0.0)
    to, programs = scale_parts + tl.program_id(0), tl.num_programs(0)
    tl.store(to, tl.sum(tl.sum(dz * z + dy * y, 1), 0))
    tl.store(to + programs, tl.sum(tl.sum(ds * s, 1), 0))
    tl.store(to + 2 * programs, tl.sum(tl.sum(dc * c, 1), 0))
    row_start, col_start = first_row + at_row * BM, first_col + at_col * BN
    if (row_start < col_start + BN) & (col_start < row_start + BM):
        same = (first_row + row)[:, None] == (first_col + col)[None, :]
        own = matches + first_row + row
        dz = tl.where(same, tl.load(own, mask=row < n, other=0.0)[:, None], dz)
        ds = tl.where(same, tl.load(own + count, mask=row < n, other=0.0)[:, None], ds)
        dc = tl.where(same, tl.load(own + 2 * count, mask=row < n, other=0.0)[:, None], dc)
    write_rounded(dz, high, low, at_row, at_col, n, m, width, EVEN, PRODUCTS, BM, BN)
    write_rounded(dy, high + PLANE, low + PLANE, at_row, at_col, n, m, width, EVEN, PRODUCTS, BM, BN)
    if ROW_GUIDE:
        write_rounded(ds, high + 2 * PLANE, low + 2 * PLANE, at_row, at_col, n, m, width, EVEN, PRODUCTS, BM, BN)
    if COL_GUIDE:
        write_rounded(dc, high + 3 * PLANE, low + 3 * PLANE, at_row, at_col, n, m, width, EVEN, PRODUCTS, BM, BN)


@triton.jit
def _pulled(logits, scores, side, count, inside, AXIS: tl.constexpr):
    """∂z and ∂s of one side, whose six numbers are `count` apart."""
    a = tl.expand_dims(tl.load(side, mask=inside, other=0.0), AXIS)
    b = tl.expand_dims(tl.load(side + count, mask=inside, other=0.0), AXIS)
    k1 = tl.expand_dims(tl.load(side + 2 * count, mask=inside, other=0.0), AXIS)
    k2 = tl.expand_dims(tl.load(side + 3 * count, mask=inside, other=0.0), AXIS)
    k3 = tl.expand_dims(tl.load(side + 4 * count, mask=inside, other=0.0), AXIS)
    k4 = tl.expand_dims(tl.load(side + 5 * count, mask=inside, other=0.0), AXIS)
    apart = logits - scores
    q, p = tl.exp2(logits * LOG2_E - a), tl.exp2(scores * LOG2_E - b)
    return q * (k1 + k2 * apart) + k3 * p, p * (k4 + k3 * apart) - k2 * q
