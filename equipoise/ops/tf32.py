"""Products of float32 matrices by a GPU's tensor cores (TF32): numbers and sums stay float32, factors are rounded to
ten bits behind the point."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

CAPABILITY = (8, 0)  # Ampere


def can_tf32(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= CAPABILITY


@contextmanager
def tf32_products(wanted: bool) -> Iterator[None]:
    """Within, matrices of float32 are multiplied so, if `wanted`; torch keeps the choice for the whole process."""
    if not wanted:
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
