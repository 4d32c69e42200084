"""Signed distances of the sixteen shapes, each a pure function of (x, y) in the shape's own frame.

The frame: x to the right, y downwards, the shape within the unit disc about the origin, so that it may turn freely.
Negative inside, zero on the edge, positive outside, and a gradient of norm 1 near the edge: multiplied by the radius in
pixels, a distance says how much of a pixel is covered. Away from the edge a value may only be a bound (unions and
intersections by min and max), which is all that anti-aliasing and outlines need.

Formulas after Inigo Quilez, "2D distance functions", https://iquilezles.org/articles/distfunctions2d.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import torch
from torch import Tensor

Distance = Callable[[Tensor, Tensor], Tensor]
Points = Sequence[tuple[float, float]]


def _mirrored(across: Tensor, along: Tensor, half: Points) -> Tensor:
    """Distance to a polygon symmetric about the axis across = 0, given the half of it that leads from axis to axis."""
    across = across.abs()
    nearest = torch.full_like(across, math.inf)
    inside = torch.zeros_like(across, dtype=torch.bool)
    for (ax, ay), (bx, by) in pairwise(half):
        ex, ey = bx - ax, by - ay
        px, py = across - ax, along - ay
        t = ((px * ex + py * ey) / (ex * ex + ey * ey)).clamp_(0, 1)
        nearest = torch.minimum(nearest, (px - t * ex).square_() + (py - t * ey).square_())
        if ey != 0:  # a ray to the right crosses the edge; an edge along the ray is never crossed
            inside ^= ((along < ay) != (along < by)) & (px < py * (ex / ey))
    return nearest.sqrt_() * (1 - 2 * inside.to(across.dtype))


def _wedge(x: Tensor, y: Tensor, n: int) -> tuple[Tensor, Tensor]:
    """(along, across) in the half wedge about the nearest of n axes, the first pointing up; across >= 0."""
    sector = 2 * math.pi / n
    angle = torch.atan2(x, -y)
    angle = (angle - sector * torch.round(angle / sector)).abs_()
    length = torch.hypot(x, y)
    return length * torch.cos(angle), length * torch.sin(angle)


def circle(x: Tensor, y: Tensor) -> Tensor:
    return torch.hypot(x, y) - 1


def ring(x: Tensor, y: Tensor) -> Tensor:
    return (torch.hypot(x, y) - 0.78).abs_() - 0.22


def square(x: Tensor, y: Tensor) -> Tensor:
    return torch.maximum(x.abs(), y.abs()) - math.sqrt(0.5)


def triangle(x: Tensor, y: Tensor) -> Tensor:
    return torch.maximum(y, math.sqrt(0.75) * x.abs() - 0.5 * y) - 0.5


def diamond(x: Tensor, y: Tensor) -> Tensor:
    width = 0.68
    return (x.abs() + width * y.abs() - width) / math.hypot(1, width)


def hexagon(x: Tensor, y: Tensor) -> Tensor:
    side = math.sqrt(0.75)
    return torch.maximum(y.abs(), side * x.abs() + 0.5 * y.abs()) - side


def cross(x: Tensor, y: Tensor) -> Tensor:
    thick, long = 0.31, 0.95
    x, y = x.abs(), y.abs()
    return torch.minimum(torch.maximum(x - long, y - thick), torch.maximum(x - thick, y - long))


def star(x: Tensor, y: Tensor) -> Tensor:
    along, across = _wedge(x, y, 5)
    notch = 0.46
    nx, ny = notch * math.sin(math.pi / 5), 1 - notch * math.cos(math.pi / 5)  # from the tip to the notch
    return ((along - 1) * nx + across * ny) / math.hypot(nx, ny)


def heart(x: Tensor, y: Tensor) -> Tensor:
    scale = 0.633
    x, y = x.abs() * scale, 0.63 - y * scale  # a frame with its tip at the origin and y upwards
    lobe = torch.hypot(x - 0.25, y - 0.75) - math.sqrt(0.125)
    foot = (x + y).clamp(min=0) / 2
    side = torch.minimum(torch.hypot(x, y - 1), torch.hypot(x - foot, y - foot)) * torch.sign(x - y)
    return torch.where(x + y > 1, lobe, side) / scale


def crescent(x: Tensor, y: Tensor) -> Tensor:
    return torch.maximum(torch.hypot(x, y) - 1, 0.82 - torch.hypot(x - 0.5, y))


def drop(x: Tensor, y: Tensor) -> Tensor:
    radius, depth = 0.62, 1.38  # a ball that far below the tip, which is at (0, -1)
    sine = radius / depth
    cosine = math.sqrt(1 - sine * sine)
    x, y = x.abs(), y + 1
    flank = x * cosine - y * sine
    return torch.where(x * sine + y * cosine < depth * cosine, flank, torch.hypot(x, y - depth) - radius)


def arrow(x: Tensor, y: Tensor) -> Tensor:
    return _mirrored(y, x, ((0, -0.96), (0.24, -0.96), (0.24, 0.1), (0.74, 0.1), (0, 0.99)))


def fish(x: Tensor, y: Tensor) -> Tensor:
    body = torch.hypot(x + 0.2, y.abs() + 0.41) - 0.9
    tail = _mirrored(y, x, ((0, 0.3), (0.58, 0.8), (0, 0.62)))
    eye = torch.hypot(x + 0.6, y + 0.1) - 0.1
    return torch.maximum(torch.minimum(body, tail), -eye)


def tree(x: Tensor, y: Tensor) -> Tensor:
    upper = ((0, -1), (0.44, -0.4), (0.22, -0.4), (0.6, 0.12), (0.32, 0.12))
    lower = ((0.75, 0.64), (0.16, 0.64), (0.16, 0.97), (0, 0.97))
    return _mirrored(x, y, upper + lower)


def flower(x: Tensor, y: Tensor) -> Tensor:
    along, across = _wedge(x, y, 5)
    petals = torch.hypot(along - 0.6, across) - 0.4
    middle = torch.hypot(x, y)
    return torch.maximum(torch.minimum(petals, middle - 0.5), 0.2 - middle)


def house(x: Tensor, y: Tensor) -> Tensor:
    walls = ((0, -0.95), (0.88, -0.1), (0.64, -0.1), (0.64, 0.76), (0.19, 0.76), (0.19, 0.22), (0, 0.22))
    chimney = torch.maximum((x - 0.48).abs() - 0.12, (y + 0.5).abs() - 0.28)
    return torch.minimum(_mirrored(x, y, walls), chimney)


DISTANCE: Mapping[str, Distance] = {
    "circle": circle, "ring": ring, "square": square, "triangle": triangle,
    "diamond": diamond, "hexagon": hexagon, "cross": cross, "star": star,
    "heart": heart, "crescent": crescent, "drop": drop, "arrow": arrow,
    "fish": fish, "tree": tree, "flower": flower, "house": house,
}  # fmt: skip

# width of an outline: as bold as leaves the shape's inside open; a thin one tells a circle from a ring
STROKE: Mapping[str, float] = {
    "circle": 0.12, "ring": 0.12, "square": 0.2, "triangle": 0.18,
    "diamond": 0.2, "hexagon": 0.2, "cross": 0.14, "star": 0.16,
    "heart": 0.19, "crescent": 0.14, "drop": 0.2, "arrow": 0.12,
    "fish": 0.14, "tree": 0.12, "flower": 0.13, "house": 0.13,
}  # fmt: skip
