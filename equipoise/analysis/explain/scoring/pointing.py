"""Does relevance lie where the named thing is? The pointing game, and energy in the box.

Zhang et al. 2018, "Top-Down Neural Attention by Excitation Backprop" (pointing game); Wang et al. 2020,
"Score-CAM" (energy).

    pointing = 1/N Σ_n [the most relevant place of picture n touches its box]
    energy   = 1/N Σ_n Σ_i r_ni |place i ∩ box n|/|place i|             r sums to 1

A place is a patch. Touching allows for half a place between its centre and the box, as the game's 15 pixels do. Where
several places are the most relevant, the share of them that touch counts, so a map without any preference scores what
guessing does: the share of places that touch, and the area of the box. *Do not* compare pointing between grids of
different sizes, where guessing differs.
"""

from __future__ import annotations

import torch
from torch import Tensor

cites = ("zhang2018excitation", "wang2020scorecam")


def pointing(maps: Tensor, boxes: Tensor) -> Tensor:
    """Hits [N] of maps [N, S, S] and boxes [N, 4], x0, y0, x1, y1 in [0, 1]."""
    most = maps == maps.amax((1, 2), keepdim=True)
    touched = covered(boxes.to(maps), maps.shape[-1]) > 0
    return (most & touched).sum((1, 2)) / most.sum((1, 2))


def energy(maps: Tensor, boxes: Tensor) -> Tensor:
    """Shares of relevance in the boxes [N]; of a map that is all 0, as if it were the same everywhere."""
    total = maps.sum((1, 2), keepdim=True)
    even = torch.full_like(maps, 1 / maps[0].numel())
    shares = torch.where(total > 0, maps / total.clamp(min=torch.finfo(maps.dtype).tiny), even)
    return (shares * covered(boxes.to(maps), maps.shape[-1])).sum((1, 2))


def covered(boxes: Tensor, side: int) -> Tensor:
    """Share of each place's area that lies in the box [N, S, S]."""
    edges = torch.arange(side + 1, dtype=boxes.dtype, device=boxes.device) / side
    along = [
        (torch.minimum(edges[1:], boxes[:, high, None]) - torch.maximum(edges[:-1], boxes[:, low, None])).clamp(min=0)
        for low, high in ((0, 2), (1, 3))
    ]
    return along[1][:, :, None] * along[0][:, None] * side**2
