"""Sinusoidal positions of the steps of a sequence.

Vaswani et al. 2017, "Attention Is All You Need", §3.5; fairseq's layout, which MulT uses: all sines, then all cosines.

    PE(t) = [ sin(t f_0) ... sin(t f_{h-1}), cos(t f_0) ... cos(t f_{h-1}) ],   f_k = 10000^(-k/(h-1)),   h = w // 2

t from 1: fairseq keeps places up to its padding index (0) for padding. An odd width ends with a zero. Nothing is
learned, so any length has positions.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F


def sinusoidal_positions(length: int, width: int, like: Tensor) -> Tensor:
    """[L, w], with the dtype and device of `like`."""
    half = width // 2
    exact = torch.promote_types(like.dtype, torch.float32)
    step = -math.log(10000) / max(1, half - 1)
    frequencies = torch.exp(step * torch.arange(half, dtype=exact, device=like.device))
    angles = torch.arange(1, length + 1, dtype=exact, device=like.device)[:, None] * frequencies
    return F.pad(torch.cat([angles.sin(), angles.cos()], dim=1), (0, width % 2)).to(like.dtype)
