"""Encoding more samples than fit in memory at once, in chunks.

`encode_all(total, size, encode)` returns encode(range(0, total)) without encoding more than `size` samples at once. A
model has `encode_in_chunks`; a run of several processes replaces it by one that shares the work.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

EncodeAll = Callable[[int, int, Callable[[range], Tensor]], Tensor]


def encode_in_chunks(total: int, size: int, encode: Callable[[range], Tensor]) -> Tensor:
    """Encode chunk after chunk in this process."""
    chunks = [encode(range(start, min(start + size, total))) for start in range(0, total, size)]
    return torch.cat(chunks) if chunks else encode(range(0))
