"""Does the similarity rest on what is called relevant? Places deleted, or inserted, from the most relevant on.

Petsiuk et al. 2018, "RISE: Randomized Input Sampling for Explanation of Black-box Models" (deletion, insertion).

    deletion  = mean over k = 1 ... K-1 of s(picture without its k/K most relevant places)       less is better
    insertion = mean over k = 1 ... K-1 of s(nothing but these places)                           more is better

Each as a share of the way from the empty picture (0) to the whole (1), of the mean over all pairs, so that models and
spaces compare. A deleted place is the preprocessing's mean colour. K is the number of places, at most STEPS. Equal
relevance is deleted in an order drawn at random.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Generator, Tensor

cites = ("petsiuk2018rise",)
STEPS = 8
Scores = Callable[[Tensor], Tensor]  # preprocessed images [N, 3, H, W] to similarities [N]


def deletion_insertion(images: Tensor, maps: Tensor, score: Scores, generator: Generator) -> tuple[Tensor, ...]:
    """Mean similarities [N] of deletion, of insertion, of the whole pictures and of empty ones."""
    deleted, inserted = [], []
    ranks = _ranks(maps, generator)
    count = ranks[0].numel()
    steps = min(STEPS, count)
    for step in range(1, steps):
        most = _over_pixels(ranks < round(step / steps * count), images)
        deleted.append(score(images * ~most))
        inserted.append(score(images * most))
    curves = [torch.stack(curve).mean(0) if curve else score(images) for curve in (deleted, inserted)]
    return (*curves, score(images), score(torch.zeros_like(images)))


def _ranks(maps: Tensor, generator: Generator) -> Tensor:
    """Rank of each place [N, S, S], 0 the most relevant."""
    flat = maps.flatten(1).cpu()
    shuffled = torch.rand(flat.shape, generator=generator).argsort(1)
    order = shuffled.gather(1, flat.gather(1, shuffled).argsort(dim=1, descending=True, stable=True))
    return order.argsort(1).view(maps.shape).to(maps.device)


def _over_pixels(places: Tensor, images: Tensor) -> Tensor:
    """Bool [N, S, S] at every pixel, [N, 1, H, W]."""
    rows, cols = (torch.arange(size, device=images.device) * places.shape[-1] // size for size in images.shape[-2:])
    return places[:, rows][:, :, cols][:, None]
