# mypy: allow-untyped-defs, allow-incomplete-defs, disable-error-code="untyped-decorator"
"""The inner loop of all Triton kernels that multiply matrices: of bfloat16 numbers, or of pairs of them
(`split_bf16.py`).

Needs Triton, which comes with torch for GPUs; imported only where it is used.
"""

from __future__ import annotations

import triton
import triton.language as tl

from equipoise.ops.triton_support import interpreted

IN_FLOAT32 = tl.constexpr(interpreted())  # the interpreter takes the bits of a bfloat16 for an integer in a product


@triton.jit
def tile_product(
    left, right, total, D: tl.constexpr, DEEP: tl.constexpr, PRODUCTS: tl.constexpr, BK: tl.constexpr
):  # fmt: skip
    """total [R, C] + a product over DEEP dimensions, BK at a time, from where left [R, BK] and right [BK, C] point.
    PRODUCTS is 1, or 3 for pairs, whose second half lies D numbers behind the first."""
    k = tl.arange(0, BK)
    steps: tl.constexpr = (DEEP + BK - 1) // BK
    for step in range(0, steps * PRODUCTS):
        start = step % steps * BK
        of_left, of_right = start, start
        if PRODUCTS == 3:  # high·high, high·low, low·high
            of_left += (step // (2 * steps)) * D
            of_right += (step // steps) % 2 * D
        if DEEP % BK == 0:
            u, v = tl.load(left + of_left), tl.load(right + of_right)
        else:
            u = tl.load(left + of_left, mask=k[None, :] < DEEP - start, other=0.0)
            v = tl.load(right + of_right, mask=k[:, None] < DEEP - start, other=0.0)
        if IN_FLOAT32:
            u, v = u.to(tl.float32), v.to(tl.float32)
        total = tl.dot(u, v, total)
    return total
