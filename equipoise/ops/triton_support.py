"""Whether Triton kernels can run. The package does not require Triton: it comes with torch for GPUs."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec

import torch
from torch import Tensor


def interpreted() -> bool:
    """Whether Triton is set to run kernels on the CPU (TRITON_INTERPRET=1): slow, for tests."""
    return os.environ.get("TRITON_INTERPRET", "0") not in {"", "0"}


def why_unavailable(points: Tensor, smoke_test: Callable[[torch.device], None]) -> str | None:
    """In a few words, why no Triton kernel can run on these points; None if one can. `smoke_test` runs a small one."""
    if find_spec("triton") is None:
        return "Triton is not installed (it comes with torch for GPUs)"
    if interpreted():
        return None
    if not points.is_cuda:
        return f"the points are on the device {points.device}, and the kernels run on CUDA devices"
    if torch.cuda.get_device_capability(points.device) < (8, 0):
        return "this GPU is older than compute capability 8.0 and has no bfloat16 matrix products"
    return _broken(points.device, smoke_test)


@cache
def _broken(device: torch.device, smoke_test: Callable[[torch.device], None]) -> str | None:
    """Triton compiles at first use and needs a C compiler for that: better tried once than found out in a step."""
    try:
        with torch.cuda.device(device):
            smoke_test(device)
    except Exception as error:  # whatever the compiler says: this machine has no working Triton
        return f"Triton does not work here ({type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''})"
    return None
