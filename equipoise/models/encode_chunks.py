"""Points of more things than are encoded at once: who makes them, and in what parts.

`spread(total, size, encode)` gives encode(range(0, total)) without asking for more than `size` things at once. A model
has `encode_in_chunks`; a run of several processes lends it one that shares the work.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

EncodeAll = Callable[[int, int, Callable[[range], Tensor]], Tensor]


def encode_in_chunks(total: int, size: int, encode: Callable[[range], Tensor]) -> Tensor:
    """Here, one part after another."""
    parts = [encode(range(start, min(start + size, total))) for start in range(0, total, size)]
    return torch.cat(parts) if parts else encode(range(0))
