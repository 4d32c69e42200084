# mypy: allow-untyped-defs, allow-incomplete-defs, disable-error-code="untyped-decorator"
"""Triton kernels of the fused softened contrast: what is done to four numbers of every two samples i < j.

    z = z_ij,   y = z_ji   the logits of image i and text j, of image j and text i
    s = s_ij = s_ji        the score of rows' guide;   c = c_ij = c_ji   that of columns' guide

A pair is visited once, so a match never is, and serves four of the sides that are compared (logits with scores):

    image i (z, s)     text i (y, c)     along the tile's rows
    image j (y, s)     text j (z, c)     along its columns

    sums       of each side Σ e^z, Σ e^z (z - s), Σ e^s, Σ e^s (z - s), relative to a power of two
    gradient   q = 2^(z - a), p = 2^(s - b):   ∂z = q (k₁ + k₂ (z - s)) + k₃ p,   ∂s = p (k₄ + k₃ (z - s)) - k₂ q

with a, b and k₁ to k₄ six numbers of a side (`softclip_terms.py`). Sums are relative to the largest logit, or score, of
the tile: one exponential serves a row and a column. Where that leaves next to nothing of a row or a column (FAINT), its
sums are taken again, relative to its own largest one. What belongs to no pair has the logarithm NOTHING.
Tiles are computed here (`..._of_points`) or read (`..._of_products`), as in `infonce_kernels.py`; those of gradients
are always read, for four products and four gradients at once would not fit the registers.
"""

from __future__ import annotations

import triton
import triton.language as tl

from equipoise.kernels.triton.infonce_kernels import inner_products, place, write_rounded

LOG2_E, LOG_2 = tl.constexpr(1.4426950408889634), tl.constexpr(0.6931471805599453)
NOTHING = tl.constexpr(-1e30)  # a logarithm of zero whose differences are finite
FAINT = tl.constexpr(2.0**-90)  # what is left of a sum beside the tile's largest number before it loses digits


@triton.jit
def sums_of_points(
    rows, cols, scales, parts, first_row, first_col, n, m,
    PLANE: tl.constexpr, D: tl.constexpr, PRODUCTS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """parts: of each tile [tiles of columns, 12, n] of its rows, then [tiles of rows, 12, m] of its columns; those of
    images, then of texts, by logits, then by scores: what a sum is relative to, the sum, and that of z - s."""
    at_row, at_col = place(n, m, BM, BN, GROUP)
    u, v, r, a = rows, rows + PLANE, rows + 2 * PLANE, rows + 3 * PLANE
    v_right, u_right, r_right, a_right = cols, cols + PLANE, cols + 2 * PLANE, cols + 3 * PLANE
    z = inner_products(u, v_right, at_row * BM, at_col * BN, n, m, D, D, PRODUCTS, BM, BN, BK)
    s = inner_products(r, r_right, at_row * BM, at_col * BN, n, m, D, D, PRODUCTS, BM, BN, BK)
    y = inner_products(v, u_right, at_row * BM, at_col * BN, n, m, D, D, PRODUCTS, BM, BN, BK)
    c = inner_products(a, a_right, at_row * BM, at_col * BN, n, m, D, D, PRODUCTS, BM, BN, BK)
    _write_sums(z, y, s, c, scales, parts, at_row, at_col, first_row, first_col, n, m, BM, BN)


@triton.jit
def sums_of_products(
    products, scales, parts, first_row, first_col, n, m,
    PLANE: tl.constexpr, WIDTH: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    at_row, at_col = place(n, m, BM, BN, GROUP)
    z, y, s, c = _read(products, at_row, at_col, first_row, first_col, PLANE, WIDTH, BM, BN)
    _write_sums(z, y, s, c, scales, parts, at_row, at_col, first_row, first_col, n, m, BM, BN)


@triton.jit
def gradient_of_products(
    products, scales, sides, matches, high, low, scale_parts, count, width, first_row, first_col, n, m,
    PLANE: tl.constexpr, WIDTH: tl.constexpr, STORED: tl.constexpr, ROW_GUIDE: tl.constexpr, COL_GUIDE: tl.constexpr,
    EVEN: tl.constexpr, PRODUCTS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """∂z, ∂y, ∂s, ∂c of a chunk [n, m] that begins at (first_row, first_col), into high (and low) [4, .., width], four
    planes of STORED numbers."""
    at_row, at_col = place(n, m, BM, BN, GROUP)
    z, y, s, c = _read(products, at_row, at_col, first_row, first_col, PLANE, WIDTH, BM, BN)
    _write_gradient(
        z, y, s, c, scales, sides, matches, high, low, scale_parts, count, width, at_row, at_col,
        first_row, first_col, n, m, STORED, ROW_GUIDE, COL_GUIDE, EVEN, PRODUCTS, BM, BN,
    )  # fmt: skip


@triton.jit
def merge_sums(
    parts, total, first_row, first_col, n, m, count,
    BM: tl.constexpr, BN: tl.constexpr, DEEP: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """total [2, 8, count]: a log2-sum and a mean of each kind, of what a chunk's parts and what was there before make
    together; of samples as rows and, apart from it, as columns (the program's third number). The second is the kind."""
    is_col, kind = tl.program_id(2) == 1, tl.program_id(1)
    tiles, length = tl.where(is_col, tl.cdiv(n, BM), tl.cdiv(m, BN)), tl.where(is_col, m, n)
    parts += tl.where(is_col, tl.cdiv(m, BN).to(tl.int64) * 12 * n, 0)
    here = tl.program_id(0) * WIDE + tl.arange(0, WIDE)
    inside = here < length
    to = total + (tl.program_id(2) * 8 + kind * 2).to(tl.int64) * count + tl.where(is_col, first_col, first_row) + here
    top = tl.load(to, mask=inside, other=0.0)
    weight = tl.full((WIDE,), 1.0, tl.float32)
    moment = tl.load(to + count, mask=inside, other=0.0)
    start = 0
    while start < tiles:  # not a range: the interpreter has none of a length that is not known beforehand
        tile = start + tl.arange(0, DEEP)
        known = (tile[:, None] < tiles) & inside[None, :]
        at = parts + (tile[:, None].to(tl.int64) * 12 + kind * 3) * length + here[None, :]
        part = tl.load(at, mask=known, other=NOTHING)
        higher = tl.maximum(top, tl.max(part, 0))
        before, share = tl.exp2(top - higher), tl.exp2(part - higher[None, :])
        weight = weight * before + tl.sum(share * tl.load(at + length, mask=known, other=0.0), 0)
        moment = moment * before + tl.sum(share * tl.load(at + 2 * length, mask=known, other=0.0), 0)
        top = higher
        start += DEEP
    tl.store(to, top + tl.log2(weight), mask=inside)
    tl.store(to + count, moment / weight, mask=inside)


@triton.jit
def _pairs(at_row, at_col, first_row, first_col, n, m, BM: tl.constexpr, BN: tl.constexpr):
    """Bool [BM, BN]: where two samples i < j of the matrix meet."""
    row, col = at_row * BM + tl.arange(0, BM), at_col * BN + tl.arange(0, BN)
    i, j = tl.where(row < n, first_row + row, first_col + m), tl.where(col < m, first_col + col, -1)
    return i[:, None] < j[None, :]


@triton.jit
def _read(
    products, at_row, at_col, first_row, first_col,
    PLANE: tl.constexpr, WIDTH: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """The four products of a tile: a buffer of whole tiles needs no mask. Where there is no pair nothing is read."""
    row, col = at_row * BM + tl.arange(0, BM), at_col * BN + tl.arange(0, BN)
    at = products + row[:, None].to(tl.int64) * WIDTH + col[None, :]
    useful = first_row + at_row * BM < first_col + at_col * BN + BN
    z = tl.load(at, mask=useful, other=0.0)
    y = tl.load(at + PLANE, mask=useful, other=0.0)
    s = tl.load(at + 2 * PLANE, mask=useful, other=0.0)
    c = tl.load(at + 3 * PLANE, mask=useful, other=0.0)
    return z, y, s, c


@triton.jit
def _write_sums(
    z, y, s, c, scales, parts, at_row, at_col, first_row, first_col, n, m,
    BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    pairs = _pairs(at_row, at_col, first_row, first_col, n, m, BM, BN)
    scale, of_rows, of_cols = tl.load(scales) * LOG2_E, tl.load(scales + 1) * LOG2_E, tl.load(scales + 2) * LOG2_E
    z, y = tl.where(pairs, z * scale, NOTHING), tl.where(pairs, y * scale, NOTHING)
    s, c = tl.where(pairs, s * of_rows, NOTHING), tl.where(pairs, c * of_cols, NOTHING)
    row, col = at_row * BM + tl.arange(0, BM), at_col * BN + tl.arange(0, BN)
    i = parts + at_col.to(tl.int64) * 12 * n + row
    j = parts + tl.cdiv(m, BN).to(tl.int64) * 12 * n + at_row.to(tl.int64) * 12 * m + col
    z_row, z_col = _write_kind(z, z - s, z - c, i, j + 6 * m, n, m, row, col)
    s_row, s_col = _write_kind(s, z - s, y - s, i + 3 * n, j + 3 * m, n, m, row, col)
    y_row, y_col = _write_kind(y, y - c, y - s, i + 6 * n, j, n, m, row, col)
    c_row, c_col = _write_kind(c, y - c, z - c, i + 9 * n, j + 9 * m, n, m, row, col)
    faintest = tl.min(tl.minimum(tl.minimum(z_row, s_row), tl.minimum(y_row, c_row)), 0)
    faintest = tl.minimum(faintest, tl.min(tl.minimum(tl.minimum(z_col, s_col), tl.minimum(y_col, c_col)), 0))
    if faintest < FAINT:
        tl.debug_barrier()  # what was written above is overwritten, maybe by other threads
        _write_side(z, s, i, n, row < n, 1)
        _write_side(y, c, i + 6 * n, n, row < n, 1)
        _write_side(y, s, j, m, col < m, 0)
        _write_side(z, c, j + 6 * m, m, col < m, 0)


@triton.jit
def _write_kind(logs, apart_row, apart_col, i, j, n, m, row, col):
    """Write the tile's largest logit, or score, in units of log 2, and sums relative to it per row and per column.
    The units are changed before: a product and a difference in one instruction, of which one rounds and the other does
    not, are no zero where NOTHING is the largest."""
    top = tl.max(tl.max(logs, 1), 0)
    weights = tl.exp2(logs - top)
    by_row, by_col = tl.sum(weights, 1), tl.sum(weights, 0)
    tl.store(i, tl.zeros_like(by_row) + top, mask=row < n)
    tl.store(i + n, by_row, mask=row < n)
    tl.store(i + 2 * n, tl.sum(weights * apart_row, 1) * LOG_2, mask=row < n)
    tl.store(j, tl.zeros_like(by_col) + top, mask=col < m)
    tl.store(j + m, by_col, mask=col < m)
    tl.store(j + 2 * m, tl.sum(weights * apart_col, 0) * LOG_2, mask=col < m)
    return by_row, by_col


@triton.jit
def _write_side(logits, scores, parts, length, inside, AXIS: tl.constexpr):
    """Write the sums of one side, relative to its own largest logit and score."""
    apart = logits - scores
    _write_careful(logits, apart, parts, length, inside, AXIS)
    _write_careful(scores, apart, parts + 3 * length, length, inside, AXIS)


@triton.jit
def _write_careful(logs, apart, parts, length, inside, AXIS: tl.constexpr):
    top = tl.max(logs, AXIS)
    weights = tl.exp2(logs - tl.expand_dims(top, AXIS))
    tl.store(parts, top, mask=inside)
    tl.store(parts + length, tl.sum(weights, AXIS), mask=inside)
    tl.store(parts + 2 * length, tl.sum(weights * apart, AXIS) * LOG_2, mask=inside)


@triton.jit
def _write_gradient(
    z, y, s, c, scales, sides, matches, high, low, scale_parts, count, width, at_row, at_col,
    first_row, first_col, n, m, STORED: tl.constexpr, ROW_GUIDE: tl.constexpr, COL_GUIDE: tl.constexpr,
    EVEN: tl.constexpr, PRODUCTS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """sides [2, 6, count], matches [3, count]: ∂z, ∂s and ∂c of samples with themselves, which go on the diagonal."""
    pairs = _pairs(at_row, at_col, first_row, first_col, n, m, BM, BN)
    row, col = at_row * BM + tl.arange(0, BM), at_col * BN + tl.arange(0, BN)
    i, j, texts = sides + first_row + row, sides + first_col + col, 6 * count
    scale, of_rows, of_cols = tl.load(scales), tl.load(scales + 1), tl.load(scales + 2)
    z, y, s, c = z * scale, y * scale, s * of_rows, c * of_cols
    if not EVEN:  # a buffer's end may hold anything
        z, y, s, c = tl.where(pairs, z, 0.0), tl.where(pairs, y, 0.0), tl.where(pairs, s, 0.0), tl.where(pairs, c, 0.0)
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
    write_rounded(dy, high + STORED, low + STORED, at_row, at_col, n, m, width, EVEN, PRODUCTS, BM, BN)
    if ROW_GUIDE:
        write_rounded(ds, high + 2 * STORED, low + 2 * STORED, at_row, at_col, n, m, width, EVEN, PRODUCTS, BM, BN)
    if COL_GUIDE:
        write_rounded(dc, high + 3 * STORED, low + 3 * STORED, at_row, at_col, n, m, width, EVEN, PRODUCTS, BM, BN)


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
