# mypy: allow-untyped-defs, allow-incomplete-defs, disable-error-code="untyped-decorator"
"""Triton kernels of the fused contrast by distances: what `fused_tiles.py` does, of z = -exp(t)·D.

    straight   D² = ‖u - v‖²                       w = g/D                              q = 1
    arcs       D² = Σ_k θ_k²                       w_k = g/D · θ_k/sin θ_k · 2/L_k       q_k = cos θ_k = 2⟨u_k, v_k⟩/L_k
    both       ∂u = exp(t) Σ_j w_ij (v_j - q_ij u_i),   L = ‖u‖² + ‖v‖²

From inner products, ‖u ∓ v‖² = L ∓ 2⟨u, v⟩. With y = 1 - |cos θ| = min‖u ∓ v‖²/L, which keeps its digits near 0 and π
where the cosine does not, the acute angle's square is y·P(y): arccos² is smooth at 1, and a polynomial of degree 7 is
within 1.4e-7 of it. The obtuse angle is π less its root.

Where y is below LOST_DIGITS anywhere in a tile (identical, nearly identical or opposite points), the whole tile is
computed again from the vectors' differences: seldom, and then exact. Weights are rounded before their sums are taken,
so that an error of w is one of w (v - q u), and vanishes with the distance.
"""

from __future__ import annotations

import triton
import triton.language as tl

from equipoise.kernels.fused_tiles import inner_products, logit_gradient, place, write_rounded, write_statistics

LOST_DIGITS = tl.constexpr(1e-3)
PI = tl.constexpr(3.141592653589793)


@triton.jit
def statistics_of_points(
    rows, cols, row_squares, col_squares, scale, row_parts, col_parts, n, m,
    D: tl.constexpr, SPHERES: tl.constexpr, ARC: tl.constexpr, EVEN: tl.constexpr, PRODUCTS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    at_row, at_col = place(n, m, BM, BN, GROUP)
    squares = _distances(
        rows, cols, row_squares, col_squares, at_row * BM, at_col * BN, n, m, D, SPHERES, ARC, PRODUCTS, BM, BN, BK
    )
    write_statistics(-tl.sqrt(squares), scale, row_parts, col_parts, at_row, at_col, n, m, EVEN, BM, BN)


@triton.jit
def gradient_of_points(
    rows, cols, row_squares, col_squares, scale, above_rows, above_cols, high, low, row_along, col_along, scale_parts,
    width, first_row, first_col, match, n, m,
    D: tl.constexpr, SPHERES: tl.constexpr, ARC: tl.constexpr, EVEN: tl.constexpr, PRODUCTS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """w of a chunk into high (and low), its sums over each tile's rows and columns into row_along [tiles of columns, n]
    and col_along [tiles of rows, m]. For arcs g/D into `high`, float32; `arc_weights` does the rest."""
    at_row, at_col = place(n, m, BM, BN, GROUP)
    squares = _distances(
        rows, cols, row_squares, col_squares, at_row * BM, at_col * BN, n, m, D, SPHERES, ARC, PRODUCTS, BM, BN, BK
    )
    g = logit_gradient(
        -tl.sqrt(squares), scale, above_rows, above_cols, scale_parts, at_row, at_col, n, m,
        first_row, first_col, match, EVEN, BM, BN,
    )  # fmt: skip
    weight = tl.where(squares > 0, g * tl.rsqrt(tl.where(squares > 0, squares, 1.0)), 0.0)
    if ARC:
        row, col = at_row * BM + tl.arange(0, BM), at_col * BN + tl.arange(0, BN)
        at = row[:, None].to(tl.int64) * width + col[None, :]
        tl.store(high + at, weight, mask=(row[:, None] < n) & (col[None, :] < m))
    else:
        written = write_rounded(weight, high, low, at_row, at_col, n, m, width, EVEN, PRODUCTS, BM, BN)
        _write_along(written, row_along, col_along, at_row, at_col, n, m, BM, BN)


@triton.jit
def arc_weights(
    rows, cols, row_squares, col_squares, of_distance, high, low, row_along, col_along, width, n, m,
    D: tl.constexpr, SPHERES: tl.constexpr, EVEN: tl.constexpr, PRODUCTS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """w_k of a chunk, from g/D: the second number of the program is the sphere k. high, low [spheres, n, width]."""
    at_row, at_col = place(n, m, BM, BN, GROUP)
    sphere = tl.program_id(1)
    y, obtuse, lengths = _shares(
        rows, cols, row_squares, col_squares, at_row * BM, at_col * BN, n, m, sphere, D, SPHERES, PRODUCTS, BM, BN, BK
    )
    if tl.min(tl.min(y, 1), 0) < LOST_DIGITS:
        near, far = _careful(
            rows, cols, at_row * BM, at_col * BN, n, m, sphere, D, D // SPHERES, True, PRODUCTS, BM, BN
        )
        y = 2 * tl.minimum(near, far) / tl.maximum(near + far, 1e-30)
    row, col = at_row * BM + tl.arange(0, BM), at_col * BN + tl.arange(0, BN)
    inside = (row[:, None] < n) & (col[None, :] < m)
    given = tl.load(of_distance + row[:, None].to(tl.int64) * width + col[None, :], mask=inside, other=0.0)
    acute = tl.sqrt(_arc_squared(y))
    angle = tl.where(obtuse, PI - acute, acute)
    sine_squared = y * (2 - y)
    weight = given * angle * tl.rsqrt(tl.where(y > 0, sine_squared, 1.0)) * (2 / tl.maximum(lengths, 1e-30))
    weight = tl.where(y > 0, weight, 0.0)
    offset = sphere.to(tl.int64) * n * width
    written = write_rounded(weight, high + offset, low + offset, at_row, at_col, n, m, width, EVEN, PRODUCTS, BM, BN)
    along = written * tl.where(obtuse, y - 1, 1 - y)
    row_along += sphere.to(tl.int64) * tl.cdiv(m, BN) * n
    col_along += sphere.to(tl.int64) * tl.cdiv(n, BM) * m
    _write_along(along, row_along, col_along, at_row, at_col, n, m, BM, BN)


@triton.jit
def _distances(
    rows, cols, row_squares, col_squares, first_row, first_col, n, m,
    D: tl.constexpr, SPHERES: tl.constexpr, ARC: tl.constexpr, PRODUCTS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Squared distances of a tile."""
    total = tl.zeros((BM, BN), tl.float32)
    least = tl.full((BM,), 1.0, tl.float32)
    for sphere in range(0, SPHERES):
        if ARC:
            y, obtuse, _ = _shares(
                rows, cols, row_squares, col_squares, first_row, first_col, n, m, sphere,
                D, SPHERES, PRODUCTS, BM, BN, BK,
            )  # fmt: skip
            least = tl.minimum(least, tl.min(y, 1))
            total += _angle_squared(y, obtuse)
        else:
            inner = inner_products(rows, cols, first_row, first_col, n, m, D, D, PRODUCTS, BM, BN, BK)
            lengths = _lengths(row_squares, col_squares, first_row, first_col, n, m, 0, 1, BM, BN)
            total = tl.maximum(lengths - 2 * inner, 0.0)
            least = tl.min(tl.where(lengths > 0, total / tl.maximum(lengths, 1e-30), 0.0), 1)
    if tl.min(least, 0) < LOST_DIGITS:
        total = tl.zeros((BM, BN), tl.float32)
        for sphere in range(0, SPHERES):
            near, far = _careful(rows, cols, first_row, first_col, n, m, sphere, D, D // SPHERES, ARC, PRODUCTS, BM, BN)
            if ARC:
                total += _angle_squared(2 * tl.minimum(near, far) / tl.maximum(near + far, 1e-30), far < near)
            else:
                total = near
    return total


@triton.jit
def _shares(
    rows, cols, row_squares, col_squares, first_row, first_col, n, m, sphere,
    D: tl.constexpr, SPHERES: tl.constexpr, PRODUCTS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """y = 1 - |cos θ|, whether θ is obtuse, and L, of one sphere of a tile."""
    deep: tl.constexpr = D // SPHERES
    start = sphere * deep
    inner = inner_products(rows + start, cols + start, first_row, first_col, n, m, D, deep, PRODUCTS, BM, BN, BK)
    lengths = _lengths(row_squares, col_squares, first_row, first_col, n, m, sphere, SPHERES, BM, BN)
    root = tl.rsqrt(tl.maximum(lengths, 1e-30))  # one instruction, where a division is many
    return tl.maximum(lengths - 2 * tl.abs(inner), 0.0) * root * root, inner < 0, lengths


@triton.jit
def _lengths(
    row_squares, col_squares, first_row, first_col, n, m, sphere,
    SPHERES: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """‖u‖² + ‖v‖² [BM, BN]."""
    row = tl.minimum(first_row + tl.arange(0, BM), n - 1)
    col = tl.minimum(first_col + tl.arange(0, BN), m - 1)
    return (
        tl.load(row_squares + row * SPHERES + sphere)[:, None] + tl.load(col_squares + col * SPHERES + sphere)[None, :]
    )


@triton.jit
def _careful(
    rows, cols, first_row, first_col, n, m, sphere, D: tl.constexpr, DEEP: tl.constexpr,
    ARC: tl.constexpr, PRODUCTS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """‖u - v‖² and, for arcs, ‖u + v‖² of one sphere of a tile, from differences: slow, and exact where points meet."""
    stride: tl.constexpr = D if PRODUCTS == 1 else 2 * D
    row = tl.minimum(first_row + tl.arange(0, BM), n - 1).to(tl.int64)
    col = tl.minimum(first_col + tl.arange(0, BN), m - 1).to(tl.int64)
    left, right = rows + row * stride + sphere * DEEP, cols + col * stride + sphere * DEEP
    near, far = tl.zeros((BM, BN), tl.float32), tl.zeros((BM, BN), tl.float32)
    for k in range(0, DEEP):
        u, v = tl.load(left + k).to(tl.float32), tl.load(right + k).to(tl.float32)
        if PRODUCTS == 3:
            u += tl.load(left + D + k).to(tl.float32)
            v += tl.load(right + D + k).to(tl.float32)
        apart = u[:, None] - v[None, :]
        near += apart * apart
        if ARC:
            apart = u[:, None] + v[None, :]
            far += apart * apart
    return near, far


@triton.jit
def _arc_squared(y):
    """arccos²(1 - y) for y in [0, 1]."""
    p = y * 0.005022683646529913 - 0.008413559757173061
    p = p * y + 0.013727612793445587
    p = p * y + 0.005061805248260498
    p = p * y + 0.029950985684990883
    p = p * y + 0.08870943635702133
    p = p * y + 0.3333420753479004
    p = p * y + 1.9999998807907104
    return p * y


@triton.jit
def _angle_squared(y, obtuse):
    acute = _arc_squared(y)
    return acute + tl.where(obtuse, PI * (PI - 2 * tl.sqrt(acute)), 0.0)


@triton.jit
def _write_along(
    along, row_along, col_along, at_row, at_col, n, m, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """A tile's sums over its rows and over its columns; it is 0 outside of the matrix."""
    row, col = at_row * BM + tl.arange(0, BM), at_col * BN + tl.arange(0, BN)
    tl.store(row_along + at_col.to(tl.int64) * n + row, tl.sum(along, 1), mask=row < n)
    tl.store(col_along + at_row.to(tl.int64) * m + col, tl.sum(along, 0), mask=col < m)
