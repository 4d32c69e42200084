"""Matrix products of bfloat16 numbers with float32 sums, and float32 points as pairs of bfloat16 ones.

x = high + low + error, |error| <= 2^-17 |x|:  ⟨x, y⟩ ≈ ⟨high, high⟩ + ⟨high, low⟩ + ⟨low, high⟩. Three products of
bfloat16 are faster than one of float32 on GPUs, and far nearer to it than one of TF32.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch
from torch import Tensor


def add_product(
    total: Tensor, left: Sequence[Tensor] | Tensor, right: Sequence[Tensor] | Tensor, fresh: bool = False
) -> Tensor:
    """total [R, C] += left [R, K] @ right [K, C], each given as its halves; = instead of += where `fresh`."""
    for number, (one, other) in enumerate(_pairs(left, right)):
        begins = fresh and number == 0
        if not total.is_cuda:
            total.addmm_(one.float(), other.float(), beta=0 if begins else 1)
        elif begins:
            torch.mm(one, other, out_dtype=torch.float32, out=total)
        elif _adds_to_float32(total.device):
            torch.addmm(total, one, other, out_dtype=torch.float32, out=total)
        else:
            total += torch.mm(one, other, out_dtype=torch.float32)
    return total


def _pairs(left: Sequence[Tensor] | Tensor, right: Sequence[Tensor] | Tensor) -> list[tuple[Tensor, Tensor]]:
    if len(left) == 1:
        return [(left[0], right[0])]
    return [(left[0], right[0]), (left[0], right[1]), (left[1], right[0])]


@cache
def _adds_to_float32(device: torch.device) -> bool:
    """Whether this torch adds a product of bfloat16 to float32 sums without a copy; older ones do not."""
    one = torch.ones(16, 16, device=device)
    half = one.bfloat16()
    try:
        torch.addmm(one, half, half, out_dtype=torch.float32, out=one)
    except RuntimeError:
        return False
    return bool((one == 17).all())


def add_batched(total: Tensor, left: Sequence[Tensor], right: Sequence[Tensor], fresh: bool = False) -> None:
    """total [B, R, C] += left [B, R, K] @ right [B, K, C], each given as its halves; = where `fresh`."""
    for number, (one, other) in enumerate(_pairs(left, right)):
        begins = fresh and number == 0
        if not total.is_cuda:
            total.copy_(one.float() @ other.float() + (0 if begins else total))
        elif begins:
            torch.bmm(one, other, out_dtype=torch.float32, out=total)
        elif _adds_to_float32(total.device):
            torch.baddbmm(total, one, other, out_dtype=torch.float32, out=total)
        else:
            total += torch.bmm(one, other, out_dtype=torch.float32)
