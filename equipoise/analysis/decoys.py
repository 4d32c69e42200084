"""How many of the captions that look right are wrong all the same, by captions that surely are.

P(right) is surer than it is right where siblings share what misleads a judge, or judges learned from what was kept, so
the mean of 1 - P(right) says far too little of what is left. But what is said of wrong captions can be asked: give each
image of a fold, all of which its judge has not seen, the captions of another one. A caption that was passed on to a
wrong image is such a draw too, so that

    wrong among those with P(right) ≥ t     ≈     π M · share of the decoys with P(right) ≥ t

with π the share of wrong ones among the M captions of the fold. Where evidence of captions together counts, decoys come
with their siblings, as captions do that were passed on image by image. It is the target-decoy search of proteomics
(Elias and Gygi 2007, "Target-decoy search strategy for increased confidence in large-scale protein identifications by
mass spectrometry"), with π read instead of as many decoys as targets. Wrong captions that fit better than those of
another record, by one attribute, say, are more often taken for right than decoys are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from equipoise.analysis.noise import Pairs, Similarity, log_ratios
from equipoise.data.rng import generator

SAMPLE = 2048  # images of a fold whose captions are exchanged


@dataclass(frozen=True)
class Decoys:
    """log r of captions with the image of another record, and the number of that image, each [K]."""

    log_ratio: np.ndarray
    owners: np.ndarray


def exchanged(points: Pairs, share: float, seed: int) -> Pairs:
    """The pairs with the texts of a share of the images, two at least, passed on among these, whichever `Pairs.sample`
    takes by the same seed."""
    order = torch.randperm(len(points.images), generator=generator(seed, "passed on"))
    chosen = order[: max(2, int(share * len(points.images)))]
    owner = torch.arange(len(points.images))
    owner[chosen] = chosen.roll(1)
    return Pairs(points.images, points.texts, owner[points.image_of_text])


def compared_with(points: Pairs, count: int, seed: int) -> tuple[Pairs, torch.Tensor]:
    """A sample of the pairs, to compare all with, and the place of each image in it, or -1."""
    pool, owners = points.sample(count, seed)
    place = torch.full((len(points.images),), -1)
    place[owners] = torch.arange(len(owners))
    return pool, place


def decoys_of(
    points: Pairs, similarity: Similarity, scale: float, pool_size: int, seed: int, images: int = SAMPLE
) -> Decoys:
    """Decoys of some images of a fold, whose log r is taken as that of its pairs is."""
    wrong = exchanged(points, 1.0, seed)
    pool, place = compared_with(wrong, pool_size, seed)
    chosen = torch.randperm(len(points.images), generator=generator(seed, "decoys"))[:images].sort().values
    numbers = torch.full((len(points.images),), -1)
    numbers[chosen] = torch.arange(len(chosen))
    texts = (numbers[wrong.image_of_text] >= 0).nonzero().flatten()
    some = Pairs(points.images[chosen], points.texts[texts], numbers[wrong.image_of_text[texts]])
    scales = torch.tensor([scale], dtype=torch.float64)
    ratios = log_ratios(some, pool, place[chosen], similarity, scales)[0]
    return Decoys(ratios.numpy(), some.image_of_text.numpy())


def mean_of(decoys: Sequence[Decoys]) -> Decoys:
    """What several judges say of the same decoys, on average."""
    return Decoys(np.mean([one.log_ratio for one in decoys], axis=0), decoys[0].owners)


def still_wrong(right: np.ndarray, thresholds: Sequence[float], share: float, captions: int) -> np.ndarray:
    """How many of a fold's captions are wrong and have P(right) of at least each threshold, from P(right) of decoys."""
    ordered = np.sort(right)
    below = np.searchsorted(ordered, np.asarray(thresholds, dtype=ordered.dtype), side="left")
    return share * captions * (1 - below / len(ordered))
