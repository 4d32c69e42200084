"""A stand-in for an object detector: boxes with known errors, and features of the pixels inside them.

SoftCLIP (Gao et al. 2024) takes, from a trained detector, the ten surest regions of an image: a 2048-d appearance, the
4 corners of the box, and a tag. Here the true boxes are known, so the errors are dials, and the appearance is nothing
but pixels: the box, cut out and averaged down to 8 × 8, 192 numbers in [-1, 1]. No label ever enters a feature.

    missed     share of things that are not found (at least one always is)
    jitter     how far each corner is off, as a share of the box's side (standard deviation)
    confused   share of tags that name some other thing of the corpus
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import torch
from torch import Tensor
from torch.nn import functional as F

from equipoise.settings.bounds import bounded
from equipoise.types import UserError

CELLS = 8  # a side, of a region's appearance
WIDTH = 3 * CELLS * CELLS + 4
FINER = 2  # samples a cell and direction, averaged
Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class SceneDetector:
    regions: int = 0  # the most an image has; 0: no detector at all
    missed: float = 0.0  # share of things that are not found
    jitter: float = 0.0  # how far corners are off, in sides of the box
    confused: float = 0.0  # share of tags that name something else
    size: int = bounded(64, 0, 2**14)  # pixels of the pictures it looks at

    def __post_init__(self) -> None:
        if self.regions < 0:
            raise UserError(f"regions must be at least 0, not {self.regions}")
        for name in ("missed", "confused"):
            if not 0 <= getattr(self, name) <= 1:
                raise UserError(f"{name} must be a share from 0 to 1, not {getattr(self, name)}")
        if self.jitter < 0:
            raise UserError(f"jitter must be at least 0, not {self.jitter}")

    def found(self, boxes: Sequence[Box], rng: Random) -> list[tuple[int, Box]]:
        """Which things are found, by number, and where the detector thinks they are; the largest first."""
        kept = [number for number in range(len(boxes)) if rng.random() >= self.missed]
        kept = kept or [rng.randrange(len(boxes))]
        seen = [(number, self._shaken(boxes[number], rng)) for number in kept]
        return sorted(seen, key=lambda each: -_area(each[1]))[: self.regions]

    def named(self, tag: str, names: Sequence[str], rng: Random) -> str:
        """The tag, or now and then another one."""
        return rng.choice(names) if rng.random() < self.confused else tag

    def _shaken(self, box: Box, rng: Random) -> Box:
        x0, y0, x1, y1 = box
        dx, dy = self.jitter * (x1 - x0), self.jitter * (y1 - y0)
        xs = sorted(min(1.0, max(0.0, x + rng.gauss(0, dx))) for x in (x0, x1))
        ys = sorted(min(1.0, max(0.0, y + rng.gauss(0, dy))) for y in (y0, y1))
        return xs[0], ys[0], xs[1], ys[1]


def appearance(images: Tensor, boxes: Sequence[Sequence[Box]], regions: int) -> tuple[Tensor, Tensor]:
    """Images uint8 [N, 3, H, W] and boxes of each to features [N, R, w] with a mask [N, R]; padding is zero."""
    corners = torch.zeros(len(images), regions, 4)
    mask = torch.zeros(len(images), regions, dtype=torch.bool)
    for row, each in enumerate(boxes):
        for place, box in enumerate(each):
            corners[row, place] = torch.tensor(box)
            mask[row, place] = True
    pixels = images.float().div(127.5).sub(1)
    steps = (torch.arange(CELLS * FINER) + 0.5) / (CELLS * FINER)
    x0, y0, x1, y1 = (corners.flatten(0, 1)[:, i, None] for i in range(4))
    xs, ys = 2 * (x0 + (x1 - x0) * steps) - 1, 2 * (y0 + (y1 - y0) * steps) - 1  # [N·R, S] in [-1, 1]
    grid = torch.stack([xs[:, None, :].expand(-1, len(steps), -1), ys[:, :, None].expand(-1, -1, len(steps))], dim=-1)
    inside = F.grid_sample(pixels.repeat_interleave(regions, 0), grid, align_corners=False, padding_mode="border")
    cells = F.avg_pool2d(inside, FINER).flatten(1).view(len(images), regions, -1)
    return torch.cat([cells, corners], dim=-1) * mask[..., None], mask


def _area(box: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])
