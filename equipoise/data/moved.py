"""Tensors on their way to a device, without waiting for it."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor


def moved(tensor: Tensor, device: torch.device | str) -> Tensor:
    """The tensor on `device`. A GPU fetches it from pinned memory in its own time; for a copy from other memory the
    processor would wait, and the copy for all work before it."""
    if torch.device(device).type != "cuda" or tensor.device.type != "cpu":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


@cache
def constants(values: tuple[float, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """The same few numbers in every batch, brought to a device once; not to be written to."""
    return torch.tensor(values, dtype=dtype, device=device)
