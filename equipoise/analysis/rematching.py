"""Images and texts that lost their partners, matched anew: which text of all fits an image, and how sure that is.

    P(j | i) = π r_ij / m / (1 - π + π Σ_j r_ij / m)

r_ij is how much likelier image i and text j are as a pair than as strangers, m how many texts there are, and π the
share of images whose text is among them, read by the likelihood of all images (where the set holds none of them, π
falls to 0 and nothing is matched). The same from the side of the texts; a match is mutual, and as sure as its less sure
side.
Tiles of images are looked at one by one: nothing of the size m × m is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

TILE = 512  # images at once
ITERATIONS = 100  # of the estimate of π, which nearly doubles or halves in each where it is far off


class Match(NamedTuple):
    image: int
    text: int
    probability: float


class _Side(NamedTuple):
    """Of each image, or each text [m]: log Σ r, the largest log r, and whose it is."""

    total: Tensor
    best: Tensor
    place: Tensor


def rematched(log_ratios: Callable[[slice], Tensor], count: int, least: float, tile: int = TILE) -> list[Match]:
    """Matches of `count` images with as many texts whose probability is at least `least`, in the order of images.

    `log_ratios` gives log r of some images with all texts [images, count].
    """
    if count == 0:
        return []
    images, texts = _sides(log_ratios, count, tile)
    probability = torch.minimum(_posterior(images), _posterior(texts)[images.place])
    mutual = texts.place[images.place] == torch.arange(count)
    found = (mutual & (probability >= least)).nonzero()[:, 0].tolist()
    return [Match(one, int(images.place[one]), float(probability[one])) for one in found]


def _sides(log_ratios: Callable[[slice], Tensor], count: int, tile: int) -> tuple[_Side, _Side]:
    nothing = torch.full((count,), -torch.inf, dtype=torch.float64)
    rows = _Side(nothing.clone(), nothing.clone(), torch.zeros(count, dtype=torch.long))
    columns = _Side(nothing.clone(), nothing.clone(), torch.zeros(count, dtype=torch.long))
    for start in range(0, count, tile):
        here = slice(start, min(start + tile, count))
        block = log_ratios(here).double().cpu()
        best, place = block.max(1)
        rows.total[here], rows.best[here], rows.place[here] = block.logsumexp(1), best, place
        best, place = block.max(0)
        columns.total.copy_(torch.logaddexp(columns.total, block.logsumexp(0)))
        better = best > columns.best
        columns.best[better], columns.place[better] = best[better], place[better] + start
    return rows, columns


def _posterior(side: _Side) -> Tensor:
    """P of each one's best partner [m]."""
    evidence = side.total - math.log(len(side.total))  # log of the mean of r
    share = partner_share(evidence)
    if share == 0:
        return torch.zeros_like(evidence)
    odds = math.log(share) - math.log1p(-share) if share < 1 else math.inf
    there = torch.sigmoid(evidence + odds) if share < 1 else torch.ones_like(evidence)
    return there * (side.best - side.total).exp()


def partner_share(evidence: Tensor) -> float:
    """The share π that makes Σ log(1 - π + π e^evidence) largest: of those whose partner is among the others."""
    share = 0.5
    for _ in range(ITERATIONS):
        share = float(torch.sigmoid(evidence + math.log(share) - math.log1p(-share)).mean())
        if share < 1e-9 or share > 1 - 1e-9:
            return float(round(share))
    return share
