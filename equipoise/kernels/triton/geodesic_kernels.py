# mypy: allow-untyped-defs, allow-incomplete-defs, disable-error-code="untyped-decorator"
"""Triton kernels of the fused contrast by geodesic distances: what `infonce_kernels.py` does, of z = -exp(t)·D on a
product of spheres.

    D² = Σ_k θ_k²,  cos θ_k = ⟨u_k, v_k⟩/‖u_k‖‖v_k‖        w_k = g/D · θ_k/sin θ_k /‖u_k‖‖v_k‖
    ∂u_k = exp(t) · the part across u_k of Σ_j w_kj v_kj

y = 1 - |cos θ|: the acute angle's square is y·P(y), and θ/sin θ is R(y) or, where θ is obtuse, π/sin θ - R(y). P and R
are smooth at 0, so polynomials serve: of degree 7, within 1.4e-7 of P, and 8, within 1.8e-7 of R; of 4, within 1.1e-4,
where w is rounded to bfloat16 (2e-3) anyway.

Where y is below LOST_DIGITS anywhere in a tile (points that are nearly identical or opposite, or zero), the whole tile
is computed again from the vectors' differences, ‖u ∓ v‖² of unit vectors: seldom, and then exact. The loops over
spheres hold no other loop, if a sphere's dimensions fit BK: only innermost loops load ahead.
"""

from __future__ import annotations

import triton
import triton.language as tl

from equipoise.kernels.triton.infonce_kernels import logit_gradient, place, write_rounded, write_statistics
from equipoise.ops.triton_matmul import IN_FLOAT32

LOST_DIGITS = tl.constexpr(1e-3)
PI = tl.constexpr(3.141592653589793)


@triton.jit
def statistics_of_points(
    rows, cols, row_inverses, col_inverses, row_total, col_total, scale, row_parts, col_parts, n, m,
    SPHERES: tl.constexpr, DEEP: tl.constexpr, EVEN: tl.constexpr, PRODUCTS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    at_row, at_col = place(n, m, BM, BN, GROUP)
    squares, _ = _distances(
        rows, cols, row_inverses, col_inverses, row_total, col_total, at_row * BM, at_col * BN, n, m,
        SPHERES, DEEP, PRODUCTS, BM, BN, BK,
    )  # fmt: skip
    write_statistics(-tl.sqrt(squares), scale, row_parts, col_parts, at_row, at_col, n, m, EVEN, BM, BN)


@triton.jit
def gradient_of_points(
    rows, cols, row_inverses, col_inverses, row_total, col_total, scale, above_rows, above_cols, high, low, scale_parts,
    width, first_row, first_col, match, n, m,
    SPHERES: tl.constexpr, DEEP: tl.constexpr, EVEN: tl.constexpr, PRODUCTS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """w of a chunk into high (and low) [SPHERES, n, width]."""
    at_row, at_col = place(n, m, BM, BN, GROUP)
    squares, meet = _distances(
        rows, cols, row_inverses, col_inverses, row_total, col_total, at_row * BM, at_col * BN, n, m,
        SPHERES, DEEP, PRODUCTS, BM, BN, BK,
    )  # fmt: skip
    g = logit_gradient(
        -tl.sqrt(squares), scale, above_rows, above_cols, scale_parts, at_row, at_col, n, m,
        first_row, first_col, match, EVEN, BM, BN,
    )  # fmt: skip
    given = tl.where(squares > 0, g * tl.rsqrt(tl.where(squares > 0, squares, 1.0)), 0.0)
    size = n.to(tl.int64) * width
    if meet:
        for sphere in range(0, SPHERES):
            y, obtuse, lengths = _careful(
                rows, cols, row_inverses, col_inverses, row_total, col_total, at_row * BM, at_col * BN, n, m,
                sphere, SPHERES, DEEP, PRODUCTS, BM, BN,
            )  # fmt: skip
            apart = y > 0  # where points meet or are opposite the gradient is 0, the middle of those around
            weight = tl.where(apart, given * lengths * _angle_by_sine(tl.where(apart, y, 1.0), obtuse, PRODUCTS), 0.0)
            at = sphere * size
            write_rounded(weight, high + at, low + at, at_row, at_col, n, m, width, EVEN, PRODUCTS, BM, BN)
    else:
        for sphere in range(0, SPHERES):
            cosine, by_row, by_col = _cosine(
                rows, cols, row_inverses, col_inverses, row_total, col_total, at_row * BM, at_col * BN, n, m,
                sphere, SPHERES, DEEP, PRODUCTS, BM, BN, BK,
            )  # fmt: skip
            weight = given * (by_row[:, None] * by_col[None, :])
            weight *= _angle_by_sine(1 - tl.abs(cosine), cosine < 0, PRODUCTS)
            at = sphere * size
            write_rounded(weight, high + at, low + at, at_row, at_col, n, m, width, EVEN, PRODUCTS, BM, BN)


@triton.jit
def _distances(
    rows, cols, row_inverses, col_inverses, row_total, col_total, first_row, first_col, n, m,
    SPHERES: tl.constexpr, DEEP: tl.constexpr, PRODUCTS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Squared distances of a tile, and whether points of it meet."""
    total = tl.zeros((BM, BN), tl.float32)
    least = tl.full((BM,), 1.0, tl.float32)
    for sphere in range(0, SPHERES):
        cosine, by_row, by_col = _cosine(
            rows, cols, row_inverses, col_inverses, row_total, col_total, first_row, first_col, n, m,
            sphere, SPHERES, DEEP, PRODUCTS, BM, BN, BK,
        )  # fmt: skip
        y = tl.maximum(1 - tl.abs(cosine), 0.0)
        least = tl.minimum(least, tl.minimum(tl.min(y, 1), tl.minimum(by_row, tl.min(by_col, 0))))
        total += _angle_squared(y, cosine < 0)
    meet = tl.min(least, 0) < LOST_DIGITS
    if meet:
        total = tl.zeros((BM, BN), tl.float32)
        for sphere in range(0, SPHERES):
            y, obtuse, _ = _careful(
                rows, cols, row_inverses, col_inverses, row_total, col_total, first_row, first_col, n, m,
                sphere, SPHERES, DEEP, PRODUCTS, BM, BN,
            )  # fmt: skip
            total += _angle_squared(y, obtuse)
    return total, meet


@triton.jit
def _cosine(
    rows, cols, row_inverses, col_inverses, row_total, col_total, first_row, first_col, n, m, sphere,
    SPHERES: tl.constexpr, DEEP: tl.constexpr, PRODUCTS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """cos θ of one sphere of a tile, 1/‖u‖ and 1/‖v‖, which are 0 for zero vectors."""
    row = tl.minimum(first_row + tl.arange(0, BM), n - 1)
    col = tl.minimum(first_col + tl.arange(0, BN), m - 1)
    k = tl.arange(0, BK)
    deep: tl.constexpr = DEEP if PRODUCTS == 1 else 2 * DEEP  # of each sphere, high and then low
    left = rows + row[:, None].to(tl.int64) * (SPHERES * deep) + sphere * deep + k[None, :]
    right = cols + col[None, :].to(tl.int64) * (SPHERES * deep) + sphere * deep + k[:, None]
    inner = tl.zeros((BM, BN), tl.float32)
    if DEEP <= BK:
        inner = _add_products(inner, left, right, k, DEEP, DEEP, PRODUCTS, BK)
    else:
        for start in range(0, DEEP, BK):
            inner = _add_products(inner, left + start, right + start, k, DEEP - start, DEEP, PRODUCTS, BK)
    by_row = tl.load(row_inverses + sphere * row_total + row)
    by_col = tl.load(col_inverses + sphere * col_total + col)
    return inner * (by_row[:, None] * by_col[None, :]), by_row, by_col


@triton.jit
def _add_products(
    total, left, right, k, rest, DEEP: tl.constexpr, PRODUCTS: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    u, v = _loaded(left, right, k, rest, DEEP, BK)
    total = tl.dot(u, v, total)
    if PRODUCTS == 3:
        low_u, low_v = _loaded(left + DEEP, right + DEEP, k, rest, DEEP, BK)
        total = tl.dot(u, low_v, total)
        total = tl.dot(low_u, v, total)
    return total


@triton.jit
def _loaded(left, right, k, rest, DEEP: tl.constexpr, BK: tl.constexpr):
    if DEEP % BK == 0:
        u, v = tl.load(left), tl.load(right)
    else:
        u = tl.load(left, mask=k[None, :] < rest, other=0.0)
        v = tl.load(right, mask=k[:, None] < rest, other=0.0)
    if IN_FLOAT32:
        u, v = u.to(tl.float32), v.to(tl.float32)
    return u, v


@triton.jit
def _careful(
    rows, cols, row_inverses, col_inverses, row_total, col_total, first_row, first_col, n, m, sphere,
    SPHERES: tl.constexpr, DEEP: tl.constexpr, PRODUCTS: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """y, whether θ is obtuse and 1/‖u‖‖v‖ of one sphere of a tile, from differences and sums: slow, and exact where
    points meet. Two zero vectors are at the same place, one is at a right angle to everybody else; it has no length to
    divide by, so 1/‖u‖‖v‖ is 2/(‖u‖² + ‖v‖²) here, which is the same for unit vectors."""
    deep: tl.constexpr = DEEP if PRODUCTS == 1 else 2 * DEEP
    row = tl.minimum(first_row + tl.arange(0, BM), n - 1)
    col = tl.minimum(first_col + tl.arange(0, BN), m - 1)
    left = rows + row.to(tl.int64) * (SPHERES * deep) + sphere * deep
    right = cols + col.to(tl.int64) * (SPHERES * deep) + sphere * deep
    by_row = tl.load(row_inverses + sphere * row_total + row)
    by_col = tl.load(col_inverses + sphere * col_total + col)
    near, far = tl.zeros((BM, BN), tl.float32), tl.zeros((BM, BN), tl.float32)
    of_row, of_col = tl.zeros((BM,), tl.float32), tl.zeros((BN,), tl.float32)
    for k in range(0, DEEP):
        u, v = tl.load(left + k).to(tl.float32), tl.load(right + k).to(tl.float32)
        if PRODUCTS == 3:
            u += tl.load(left + DEEP + k).to(tl.float32)
            v += tl.load(right + DEEP + k).to(tl.float32)
        of_row += u * u
        of_col += v * v
        u, v = u * by_row, v * by_col
        apart, along = u[:, None] - v[None, :], u[:, None] + v[None, :]
        near += apart * apart
        far += along * along
    y = 2 * tl.minimum(near, far) / tl.maximum(near + far, 1e-30)
    return y, far < near, 2 / tl.maximum(of_row[:, None] + of_col[None, :], 1e-30)


@triton.jit
def _angle_squared(y, obtuse):
    """θ², where arccos²(1 - y) = y·P(y)."""
    p = y * 0.005022683646529913 - 0.008413559757173061
    p = p * y + 0.013727612793445587
    p = p * y + 0.005061805248260498
    p = p * y + 0.029950985684990883
    p = p * y + 0.08870943635702133
    p = p * y + 0.3333420753479004
    p = p * y + 1.9999998807907104
    acute = p * y
    return acute + tl.where(obtuse, PI * (PI - 2 * tl.sqrt(acute)), 0.0)


@triton.jit
def _angle_by_sine(y, obtuse, PRODUCTS: tl.constexpr):
    """θ/sin θ, for y > 0."""
    if PRODUCTS == 1:
        p = y * 0.10740772634744644 - 0.036447033286094666
        p = p * y + 0.1713332235813141
        p = p * y + 0.3282295763492584
        p = p * y + 1.0001060962677002
    else:
        p = y * 0.017479006201028824 - 0.042566556483507156
        p = p * y + 0.060640767216682434
        p = p * y - 0.02518816664814949
        p = p * y + 0.0391845703125
        p = p * y + 0.05430242791771889
        p = p * y + 0.1336219161748886
        p = p * y + 0.3333221673965454
        p = p * y + 1.0000001192092896
    return tl.where(obtuse, PI * tl.rsqrt(y * (2 - y)) - p, p)
