"""Backgrounds: a quiet pattern that mixes two muted colours, never flat.

Each kind is a function (size, dice) -> [n, size, size] in [0, 1], the share of the second colour at every pixel. `dice`
[n, k] are uniform numbers drawn from the backgrounds' seeds, so a background looks the same in any batch and, but for
sharpness, at any resolution.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from equipoise.data.scenes.scene import Background

Pattern = Callable[[int, Tensor], Tensor]
GRAIN = 48  # cells of paper grain along a side


def paint(backgrounds: Sequence[Background], size: int, device: torch.device) -> Tensor:
    """The backgrounds alone, as levels: [N, 3, size, size]."""
    colours = levels(torch.tensor([b.colours for b in backgrounds], dtype=torch.float32).to(device))  # [N, 2, 3]
    seeds = torch.tensor([b.seed for b in backgrounds], dtype=torch.int64).to(device)
    share = torch.empty(len(backgrounds), size, size, device=device)
    for kind in sorted({b.kind for b in backgrounds}):
        pattern, dice = PATTERNS[kind]
        rows = torch.tensor([i for i, b in enumerate(backgrounds) if b.kind == kind]).to(device)
        share.index_copy_(0, rows, pattern(size, uniform(seeds[rows], dice)))
    first, second = colours[:, 0, :, None, None], colours[:, 1, :, None, None]
    return torch.addcmul(first, share[:, None], second - first)


def levels(colours: Tensor) -> Tensor:
    """Colours in [0, 1] on a scale on which mixing stays linear and bytes are had by cutting off the fraction."""
    return colours * 255 + 0.5


def uniform(seeds: Tensor, count: int) -> Tensor:
    """[n, count] numbers in [0, 1), the same for a seed everywhere: a counter put through murmur3's finaliser."""
    low = 0xFFFFFFFF
    bits = (seeds[:, None] * 0x9E3779B1 + torch.arange(count, device=seeds.device) * 0x85EBCA6B) & low
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        bits = ((bits ^ (bits >> shift)) * factor) & low
    return (bits >> 8).to(torch.float32) / 2**24


def gradient(size: int, dice: Tensor) -> Tensor:
    """One colour fades into the other in any direction."""
    x, y = _centres(size, dice)
    return (0.5 + _along(x, y, dice[:, 0] * 2 * math.pi)).clamp_(0, 1)


def clouds(size: int, dice: Tensor) -> Tensor:
    """Two octaves of smooth noise."""
    broad, fine = dice[:, :25].view(-1, 5, 5), dice[:, 25:].view(-1, 9, 9)
    return (0.7 * _smooth(broad, size) + 0.3 * _smooth(fine, size)).sub_(0.5).mul_(1.6).add_(0.5).clamp_(0, 1)


def paper(size: int, dice: Tensor) -> Tensor:
    """Fine grain on slightly uneven light."""
    light, grain = dice[:, :9].view(-1, 3, 3), dice[:, 9:].view(-1, GRAIN, GRAIN)
    return 0.6 * _smooth(light, size) + 0.4 * _smooth(grain, size)


def bands(size: int, dice: Tensor) -> Tensor:
    """Broad soft bands in any direction."""
    x, y = _centres(size, dice)
    turns = _along(x, y, dice[:, 0] * math.pi) * (1.5 + dice[:, 1] * 1.5)[:, None, None] + dice[:, 2, None, None]
    return torch.sin(2 * math.pi * turns).mul_(1.2).clamp_(-1, 1).mul_(0.5).add_(0.5)


def bricks(size: int, dice: Tensor) -> Tensor:
    """A running bond; the joints take the second colour."""
    x, y = _centres(size, dice)
    rows = (4 + torch.floor(dice[:, 0] * 3))[:, None, None]
    down = (y + dice[:, 1, None, None]) * rows
    course = torch.floor(down)
    right = (x + dice[:, 2, None, None]) * rows / 2 + 0.5 * (course % 2)
    to_bed, to_joint = ((down % 1) - 0.5).abs_(), ((right % 1) - 0.5).abs_()
    depth = torch.minimum(0.5 - to_bed, 2 * (0.5 - to_joint)) / rows  # distance to the nearest joint's middle
    shade = 0.25 * ((torch.floor(right) + course) % 2)
    return torch.maximum((0.5 - (depth - 0.014) * size).clamp_(0, 1), shade)


def waves(size: int, dice: Tensor) -> Tensor:
    """Lines that swing up and down."""
    x, y = _centres(size, dice)
    swing = 0.05 * torch.sin(2 * math.pi * (x * (1.5 + dice[:, 0, None, None]) + dice[:, 1, None, None]))
    turns = (y + swing) * (3 + 2 * dice[:, 2, None, None]) + dice[:, 3, None, None]
    return torch.sin(2 * math.pi * turns).mul_(0.5).add_(0.5)


PATTERNS: Mapping[str, tuple[Pattern, int]] = {  # kind -> (pattern, how many dice it needs)
    "gradient": (gradient, 1),
    "clouds": (clouds, 25 + 81),
    "paper": (paper, 9 + GRAIN * GRAIN),
    "bands": (bands, 3),
    "bricks": (bricks, 3),
    "waves": (waves, 4),
}


def _centres(size: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """x [1, 1, size] and y [1, size, 1] of the pixel centres."""
    at = (torch.arange(size, device=like.device, dtype=like.dtype) + 0.5) / size
    return at.view(1, 1, size), at.view(1, size, 1)


def _along(x: Tensor, y: Tensor, angle: Tensor) -> Tensor:
    """How far a pixel lies from the image's middle in the direction of `angle` [n]."""
    return (x - 0.5) * torch.cos(angle)[:, None, None] + (y - 0.5) * torch.sin(angle)[:, None, None]


def _smooth(lattice: Tensor, size: int) -> Tensor:
    """A lattice of values [n, k, k] spread over the image by smooth steps.

    Values of 8 bits and weights of 7 make every sum exact in float32, in whichever order a matrix product adds.
    """
    cells = lattice.shape[-1] - 1
    at = (torch.arange(size, device=lattice.device) + 0.5) * (cells / size)
    knots = torch.arange(cells + 1, device=lattice.device)
    near = (1 - (at[:, None] - knots).abs()).clamp_(min=0)
    weight = torch.round(near * near * (3 - 2 * near) * 128) / 128
    return weight @ (torch.floor(lattice * 256) / 256) @ weight.T
