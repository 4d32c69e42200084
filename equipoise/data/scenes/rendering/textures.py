"""Textures: where a thing's surface carries its colour, as signed distances in the shape's frame.

Each is a function (x, y, edge, stroke) -> distance, negative where there is ink; `edge` is the distance to the shape's
edge, `stroke` the width of its outline.
What carries no ink is a veil over the background and never a second colour, so the colour word stays beyond doubt.
Periods are shares of the thing's radius: a medium thing still shows its texture at 32 pixels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

Texture = Callable[[Tensor, Tensor, Tensor, float], Tensor]


def solid(x: Tensor, y: Tensor, edge: Tensor, stroke: float) -> Tensor:  # noqa: ARG001 every texture is asked the same way
    return torch.full_like(edge, -math.inf)


def striped(x: Tensor, y: Tensor, edge: Tensor, stroke: float) -> Tensor:  # noqa: ARG001
    return _bars((x + y) * math.sqrt(0.5), 0.62)


def dotted(x: Tensor, y: Tensor, edge: Tensor, stroke: float) -> Tensor:  # noqa: ARG001
    """Ink with round spots left out, each row shifted by half a spot."""
    pitch = 0.56
    row = torch.round(y / (pitch * 0.866))
    across = torch.remainder(x + pitch / 2 * (row % 2) + pitch / 2, pitch) - pitch / 2
    return 0.17 - torch.hypot(across, y - row * (pitch * 0.866))


def outlined(x: Tensor, y: Tensor, edge: Tensor, stroke: float) -> Tensor:  # noqa: ARG001
    return -stroke - edge


def checked(x: Tensor, y: Tensor, edge: Tensor, stroke: float) -> Tensor:  # noqa: ARG001
    across, down = _bars(x, 0.7), _bars(y, 0.7)
    return torch.maximum(torch.minimum(across, down), -torch.maximum(across, down))


def zigzag(x: Tensor, y: Tensor, edge: Tensor, stroke: float) -> Tensor:  # noqa: ARG001
    return _bars(y + _bars(x, 0.8), 0.6) * math.sqrt(0.5)


def _bars(along: Tensor, period: float) -> Tensor:
    """Bars across a direction, ink and gap of one width; a triangle wave of slope 1."""
    return (torch.remainder(along, period) - period / 2).abs_() - period / 4


TEXTURE: Mapping[str, Texture] = {
    "solid": solid,
    "striped": striped,
    "dotted": dotted,
    "outlined": outlined,
    "checked": checked,
    "zigzag": zigzag,
}
