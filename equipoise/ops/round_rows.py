"""Rows of numbers as 8-bit floats with a scale each: by a Triton kernel, where there is one, in one pass over memory.

    scale = max|row| / 448        rounded = e4m3(row / scale)

The largest number must be known before the first is rounded. A compiler's kernels read a long row twice for that, and
compute twice what it is made of; here a program keeps its rows in registers.
"""

from __future__ import annotations

import torch
from torch import Tensor

from equipoise.ops.triton_support import why_unavailable

FLOAT8 = torch.float8_e4m3fn
LARGEST = torch.finfo(FLOAT8).max
SMALLEST = 1e-12  # of a row's largest number, so that zeros have a scale
LONGEST = 1 << 14  # a row stays in one program's registers
ENTRIES = 4096  # that a program has, of short rows
_WORKING = {"cuda": False}  # whether the kernel runs on the GPU that was tried


def try_kernel(device: torch.device) -> None:
    """Let rows be rounded by the kernel if it does it right on `device`; before a model is compiled."""
    _WORKING["cuda"] = why_unavailable(torch.empty(0, device=device), _smoke_test) is None


def usable(rows: Tensor) -> bool:
    return _WORKING["cuda"] and rows.is_cuda and rows.is_contiguous() and rows.shape[1] <= LONGEST


def rounded_rows(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Rows [T, k] as 8-bit floats and the scale [T, 1] of each, by which they are multiplied to have it back."""
    found: tuple[Tensor, Tensor] = _by_kernel(rows) if usable(rows) else by_torch(rows)
    return found


def by_torch(rows: Tensor) -> tuple[Tensor, Tensor]:
    rows = rows.float()
    scale = rows.abs().amax(1, keepdim=True).clamp(min=SMALLEST) / LARGEST
    return (rows / scale).clamp(-LARGEST, LARGEST).to(FLOAT8).contiguous(), scale


@torch.library.custom_op("equipoise::round_rows", mutates_args=())
def _by_kernel(rows: Tensor) -> tuple[Tensor, Tensor]:
    from equipoise.ops.round_rows_triton import round_rows

    (count, width), (rounded, scale) = rows.shape, _results(rows)
    wide = 1 << (width - 1).bit_length()
    high = max(1, ENTRIES // wide)
    cut = {"SMALLEST": SMALLEST, "LARGEST": LARGEST, "K": width, "BK": wide, "BR": high}
    if count:
        with torch.cuda.device_of(rows):
            round_rows[(-(-count // high),)](rows, rounded, scale, count, **cut, num_warps=4)
    return rounded, scale


@_by_kernel.register_fake
def _results(rows: Tensor) -> tuple[Tensor, Tensor]:
    return rows.new_empty(rows.shape, dtype=FLOAT8), rows.new_empty(rows.shape[0], 1, dtype=torch.float32)


def _smoke_test(device: torch.device) -> None:
    """Raise if the kernel's numbers are not torch's."""
    rows = torch.linspace(-3, 5, 7 * 48, device=device).view(7, 48).to(torch.bfloat16)
    (made, scale), (wanted, exact) = _by_kernel(rows), by_torch(rows)
    torch.testing.assert_close(made.float() * scale, wanted.float() * exact, rtol=0.13, atol=1e-3)  # 1/8 is a unit
