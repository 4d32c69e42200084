"""Object proposals without learning: boxes that stand out from their surroundings.

Two cues of Alexe, Deselaers and Ferrari 2012, "Measuring the Objectness of Image Windows", §2: colour contrast (CC),
and multi-scale saliency (MS) in a simple form, with the map S of `spectral_residual.py` at one scale.

    score(box) = CC · MS · share^POWER · seen      CC = χ²(h(box), h(ring))      MS = max(0, mean S in box - in ring)

h colour histograms of sum 1; χ²(a, b) = ½ Σ_k (a_k - b_k)² / (a_k + b_k) in [0, 1]; the ring is what a box THETA times
as long and wide adds, inside the image; share is the box's part of the image: a few pixels are always unlike the rest;
seen is the part of the ring that is inside: little is known of a box at the edge, where S is high for no reason.
Every box between the lines of a GRID × GRID lattice is scored, which integral images make a few sums each; the best
that overlap no better one by more than OVERLAP (intersection over union) are kept. The paper draws its windows, learns
its parameters and has two cues more.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor
from torch.nn import functional as F

from equipoise.detection.spectral_residual import spectral_residual

SIDE = 60  # pixels, to which a picture is resized whatever its shape
GRID = 12  # lines in each direction; SIDE is a multiple of it
LEAST = 2  # cells, the shortest side of a box
LEVELS = 4  # of each of three colours in the histogram
THETA = 1.5  # how much longer and wider the surroundings are
POWER = 0.25
OVERLAP = 0.4


def salient_boxes(images: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Salient regions of images uint8 [N, 3, H, W], the best first: boxes [N, most, 4] as x0, y0, x1, y1 in [0, 1] and
    scores [N, most]."""
    boxes, outer, full = _lattice()
    small = F.interpolate(images.float(), (SIDE, SIDE), mode="bilinear", antialias=True)
    colours = _integral(_colours(small))
    unexpected = _integral(F.avg_pool2d(spectral_residual(small.mean(1))[:, None], SIDE // GRID))
    kept, scores = [], []
    for colour, surprise in zip(colours, unexpected, strict=True):
        inside, around = _sums(colour, boxes), _sums(colour, outer)
        size, ring = inside.sum(1), (around - inside).sum(1)  # in cells, for a cell's colours sum to 1
        score = _contrast(inside, around - inside) * (size / GRID**2).pow(POWER)
        within, without = _sums(surprise, boxes)[:, 0], _sums(surprise, outer)[:, 0]
        score = score * (ring / full) * (within / size - (without - within) / ring.clamp(min=1)).clamp(min=0)
        chosen = distinct(boxes.float(), score, most)
        kept.append(boxes[chosen].float() / GRID)
        scores.append(score[chosen])
    return torch.stack(kept), torch.stack(scores)


def distinct(boxes: Tensor, scores: Tensor, most: int, overlap: float = OVERLAP) -> Tensor:
    """Non-maximum suppression: the numbers of up to `most` boxes, best first, none much like a better one."""
    left, chosen = scores.clone(), list[int]()
    while len(chosen) < most and bool((left > -torch.inf).any()):
        best = int(left.argmax())
        chosen.append(best)
        left[overlaps(boxes, boxes[best]) > overlap] = -torch.inf
        left[best] = -torch.inf
    return torch.tensor(chosen, dtype=torch.long)


def overlaps(boxes: Tensor, box: Tensor) -> Tensor:
    """Intersection over union of boxes [N, 4] with one."""
    low, high = torch.maximum(boxes[:, :2], box[:2]), torch.minimum(boxes[:, 2:], box[2:])
    shared = (high - low).clamp(min=0).prod(1)
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(1) + (box[2:] - box[:2]).prod()
    return shared / (areas - shared).clamp(min=torch.finfo(boxes.dtype).tiny)


@cache
def _lattice() -> tuple[Tensor, Tensor, Tensor]:
    """All boxes in cells [B, 4], each with its surroundings, rounded to whole cells and cut at the edge, and how many
    cells the ring would have without an edge [B]."""
    line = torch.arange(GRID + 1)
    x0, y0, x1, y1 = torch.cartesian_prod(line, line, line, line).unbind(1)
    boxes = torch.stack([x0, y0, x1, y1], 1)[(x1 - x0 >= LEAST) & (y1 - y0 >= LEAST)]
    sides = boxes[:, 2:] - boxes[:, :2]
    margin = (sides * ((THETA - 1) / 2)).round().long().clamp(min=1)
    outer = torch.cat([boxes[:, :2] - margin, boxes[:, 2:] + margin], 1).clamp(0, GRID)
    return boxes, outer, (sides + 2 * margin).prod(1) - sides.prod(1)


def _colours(images: Tensor) -> Tensor:
    """Images [N, 3, S, S] -> shares of colours in each cell [N, K, GRID, GRID]."""
    levels = (images / 256 * LEVELS).long().clamp(0, LEVELS - 1)
    index = (levels[:, 0] * LEVELS + levels[:, 1]) * LEVELS + levels[:, 2]
    one_hot = F.one_hot(index, LEVELS**3).permute(0, 3, 1, 2).float()
    return F.avg_pool2d(one_hot, SIDE // GRID)


def _integral(cells: Tensor) -> Tensor:
    """[N, K, G, G] -> sums over all cells above and to the left [N, G + 1, G + 1, K]."""
    return F.pad(cells.cumsum(2).cumsum(3), (1, 0, 1, 0)).permute(0, 2, 3, 1).contiguous()


def _sums(total: Tensor, boxes: Tensor) -> Tensor:
    """Sums over the cells of each box [B, K]."""
    x0, y0, x1, y1 = boxes.unbind(1)
    return total[y1, x1] - total[y0, x1] - total[y1, x0] + total[y0, x0]


def _contrast(inside: Tensor, around: Tensor) -> Tensor:
    """χ² of the two histograms; a box that is the whole image has nothing around it, and no contrast."""
    size = around.sum(1, keepdim=True)
    a, b = inside / inside.sum(1, keepdim=True), around / size.clamp(min=1e-6)
    chi_squared = ((a - b) ** 2 / (a + b).clamp(min=1e-9)).sum(1) / 2
    return torch.where(size[:, 0] > 1e-3, chi_squared, 0)
