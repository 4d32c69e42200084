"""A number as a tensor on a device, without waiting for it."""

from __future__ import annotations

import torch
from torch import Tensor


def scalar(number: Tensor | float, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A tensor as it is, on `device`; a number is written there by a kernel, where to copy it would be to wait."""
    if isinstance(number, Tensor):
        return number.to(device, dtype)
    return torch.full((), number, dtype=dtype, device=device)
