"""float32 numbers as pairs of bfloat16 ones, for matrix products: x = high + low + error, |error| <= 2^-17 |x|."""

from __future__ import annotations

import torch
from torch import Tensor


def split_bf16(points: Tensor) -> Tensor:
    """bfloat16 points as they are; float32 points [N, d] as [N, 2d]: the rounded ones, then what rounding lost."""
    if points.dtype == torch.bfloat16:
        return points.contiguous()
    both = points.new_empty(len(points), 2 * points.shape[1], dtype=torch.bfloat16)
    high, low = both.chunk(2, 1)
    high.copy_(points)
    torch.sub(points, high, out=low)
    return both
