"""How pictures lie in memory for convolutions."""

from __future__ import annotations

import torch
from torch import Tensor


def for_convolutions(images: Tensor) -> Tensor:
    """Images [N, C, H, W] with their channels last on a GPU, whose tensor cores read them so: what convolutions make of
    them lies the same way. Elsewhere as they are."""
    return images.contiguous(memory_format=torch.channels_last) if images.is_cuda else images
