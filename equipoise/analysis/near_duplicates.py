"""The closest strangers: pairs of samples that are suspiciously alike, found tile by tile.

- duplicates: two images nearly in the same place;
- false negatives: an image and a text of another sample that fit each other.

All N² pairs are looked at, but only the best `count` are ever kept.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from equipoise.analysis.sampled_pairs import tiles

TILE = 1024

Scores = Callable[[slice, slice], Tensor]  # of a block of rows and columns


def closest_images(images: Tensor, similarity: Callable[[Tensor, Tensor], Tensor], count: int) -> list[list[float]]:
    """The `count` closest pairs of images, as [similarity, first, second] with first < second."""

    def scores(rows: slice, columns: slice) -> Tensor:
        block = similarity(images[rows], images[columns])
        return block.masked_fill(_numbers(rows)[:, None] >= _numbers(columns), -torch.inf)

    return best(scores, len(images), len(images), count, upper=True)


def closest_strangers(fit: Scores, owners: Tensor, images: int, count: int) -> list[list[float]]:
    """The `count` best fitting image and text of different samples, as [fit, image, text].

    `fit` is log r of a block of images and texts; `owners` [M] is the number of each text's image.
    """

    def scores(rows: slice, columns: slice) -> Tensor:
        return fit(rows, columns).masked_fill(_numbers(rows)[:, None] == owners[columns], -torch.inf)

    return best(scores, images, len(owners), count)


def best(scores: Scores, rows: int, columns: int, count: int, upper: bool = False) -> list[list[float]]:
    """The largest `count` scores that are not -inf, each with its row and column, largest first."""
    values, places = torch.empty(0), torch.empty(0, 2, dtype=torch.long)
    for down, across in tiles(rows, columns, TILE):
        if upper and across.stop <= down.start:
            continue
        block = scores(down, across).float().cpu()
        found, flat = block.flatten().topk(min(count, block.numel()))
        where = torch.stack([flat // block.shape[1] + down.start, flat % block.shape[1] + across.start], dim=1)
        values, places = torch.cat([values, found]), torch.cat([places, where])
        values, kept = values.topk(min(count, len(values)))
        places = places[kept]
    real = values > -torch.inf
    pairs = zip(values[real].tolist(), places[real].tolist(), strict=True)
    return [[value, *place] for value, place in pairs]


def _numbers(part: slice) -> Tensor:
    return torch.arange(part.start, part.stop)
