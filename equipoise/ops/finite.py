"""Which of many tensors holds a NaN or an infinity, found at the speed of memory.

A sum is NaN or infinite if any of its terms is, so one pass of sums clears almost every tensor; only one whose sum is
not finite, which large numbers can cause too, is looked at number by number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor


@torch.no_grad()
def first_not_finite(tensors: Mapping[str, Tensor]) -> str | None:
    """The name of the first tensor with a number that is not finite; whole numbers always are."""
    numbers = {name: tensor for name, tensor in tensors.items() if tensor.is_floating_point()}
    doubtful = [name for name, total in _sums(numbers).items() if not math.isfinite(total)]
    return next((name for name in doubtful if not bool(numbers[name].isfinite().all())), None)


def _sums(tensors: Mapping[str, Tensor]) -> dict[str, float]:
    """The sum of each tensor's numbers, fetched from each device at once."""
    found: dict[str, float] = {}
    for device in {tensor.device for tensor in tensors.values()}:
        here = {name: tensor for name, tensor in tensors.items() if tensor.device == device}
        sums = {name: t.sum(dtype=torch.promote_types(t.dtype, torch.float32)).double() for name, t in here.items()}
        found |= dict(zip(sums, torch.stack([*sums.values()]).tolist(), strict=True))
    return {name: found[name] for name in tensors}
