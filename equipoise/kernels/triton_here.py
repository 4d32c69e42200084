"""Whether Triton kernels can run here. Triton is no need of the package: it comes with torch for GPUs."""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor


def fused_tiles() -> Any:
    """The module of kernels, imported where it is used."""
    return import_module("equipoise.kernels.fused_tiles")


def distance_tiles() -> Any:
    """That of distances."""
    return import_module("equipoise.kernels.distance_tiles")


def interpreted() -> bool:
    """Whether Triton was asked to run kernels on the processor: slow, for tests."""
    return os.environ.get("TRITON_INTERPRET", "0") not in {"", "0"}


def hindrance(points: Tensor) -> str | None:
    """In a few words, why no Triton kernel can run on these points; nothing if one can."""
    if find_spec("triton") is None:
        return "Triton is not installed (it comes with torch for GPUs)"
    if interpreted():
        return None
    if not points.is_cuda:
        return f"the points are on the device {points.device}, and the kernels run on CUDA devices"
    if torch.cuda.get_device_capability(points.device) < (8, 0):
        return "this GPU is older than compute capability 8.0 and has no bfloat16 matrix products"
    return _broken(points.device)


@cache
def _broken(device: torch.device) -> str | None:
    """Triton compiles at first use and needs a C compiler for that: better tried once than found out in a step."""
    total = torch.zeros(64, device=device)
    try:
        with torch.cuda.device(device):
            fused_tiles().merge[(1,)](total, total, 1, 64, FRESH=False, DEEP=32, WIDE=64)
    except Exception as error:  # whatever the compiler says: this machine has no working Triton
        return f"Triton does not work here ({type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''})"
    return None
