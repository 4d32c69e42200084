"""Images kept after the first time, so that a second epoch costs a copy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from equipoise.data.moved import moved

CHUNK = 512  # images drawn at once


class ImageCache:
    """uint8 images of one size on a device, drawn at the first request."""

    def __init__(self, length: int, size: int, device: torch.device | str = "cpu") -> None:
        self.pixels = torch.empty(length, 3, size, size, dtype=torch.uint8, device=device)
        self.filled = torch.zeros(length, dtype=torch.bool)

    @staticmethod
    def bytes_needed(length: int, size: int) -> int:
        return length * 3 * size * size

    def images(self, indices: Sequence[int], draw: Callable[[Sequence[int]], Tensor]) -> Tensor:
        """The requested images, after `draw` has made those not cached yet."""
        wanted, place = torch.as_tensor(indices, dtype=torch.long), self.pixels.device
        for missing in wanted[~self.filled[wanted]].unique().split(CHUNK):
            self.pixels[moved(missing, place)] = draw(missing.tolist()).to(place)
            self.filled[missing] = True
        return self.pixels[moved(wanted, place)]
