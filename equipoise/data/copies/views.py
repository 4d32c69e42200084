"""Views of a picture under which a copy of it may be found: itself, nine crops, its mirror image.

A crop is a linear map of rows and one of columns, so that every view of a small picture x is A x Bᵀ.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

ZOOM = 0.9  # side of a crop: copies are often cut a little, seldom by more
WHOLE = (1.0, 0.0)  # zoom, and where the crop lies between the left (-1) and the right (1) edge
CROPPED = tuple((ZOOM, place) for place in (-1.0, 0.0, 1.0))
MIRRORED = (-1.0, 0.0)
VIEWS = ((WHOLE, WHOLE), *((rows, columns) for rows in CROPPED for columns in CROPPED), (WHOLE, MIRRORED))


@cache
def sampling(side: int, zoom: float, place: float) -> Tensor:
    """[side, side]: the map from a row of pixels to its part, linearly interpolated; a zoom below 0 mirrors it."""
    middle = (torch.arange(side, dtype=torch.float32) + 0.5) / side * 2 - 1
    source = ((middle * zoom + place * (1 - abs(zoom)) + 1) / 2 * side - 0.5).clamp(0, side - 1)
    lower = source.floor().clamp(max=side - 2)
    part = torch.zeros(side, side)
    rows = torch.arange(side)
    part[rows, lower.long()] = 1 - (source - lower)
    part[rows, lower.long() + 1] += source - lower
    return part


def view(pictures: Tensor, number: int) -> Tensor:
    """Float pictures [..., side, side] under the view of that number."""
    down, across = (sampling(pictures.shape[-1], *way) for way in VIEWS[number])
    return down @ pictures @ across.T
