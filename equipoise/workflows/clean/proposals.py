"""What fits better: for the most suspicious captions of each fold, the caption of the fold that fits the picture best.

The judge of a fold has seen neither the picture nor any of these captions. They are compared in tiles, and only the
best one of each picture is remembered. Beside them, false negatives: captions that fit their own picture and that of
another record as well, which a contrastive loss pushes apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from equipoise.analysis.near_duplicates import closest_strangers
from equipoise.analysis.noise import Pairs
from equipoise.models.model import Model
from equipoise.workflows.audit.judge import Judgement

TILE = 4096  # texts compared at once
LARGEST = 20_000  # images, and texts, of a fold that false negatives are sought among
STRANGERS = 200  # pairs looked at for false negatives, of each fold

Place = tuple[int, int]  # of a caption: the number of its record, its own number in it


@dataclass(frozen=True)
class Proposal:
    """A caption of another record that fits a picture."""

    place: Place
    log_ratio: float  # of the picture with it


@dataclass(frozen=True)
class FalseNegative:
    record: int  # whose picture a caption of another record fits
    place: Place
    log_ratio: float


class Proposals:
    """Looks at each fold while its points are at hand, and remembers what fits better."""

    def __init__(self, show: int, per: str):
        self.show, self.per = show, per
        self.best: dict[int, Proposal] = {}  # by record
        self.false_negatives: list[FalseNegative] = []

    def look(self, part: Sequence[int], points: Pairs, model: Model, judged: Judgement) -> None:
        if not (self.show and judged.knows):
            return
        places = _places(part, points.image_of_text)
        images = points.image_of_text[self._suspicious(points, judged)].unique()
        values, texts = _best_texts(points, model, judged, images)
        for image, value, text in zip(images.tolist(), values.tolist(), texts.tolist(), strict=True):
            if text >= 0:
                self.best[int(part[image])] = Proposal(places[text], value)
        found = _false_negatives(points, model, judged)
        self.false_negatives += [FalseNegative(int(part[image]), places[text], fit) for fit, image, text in found]

    def _suspicious(self, points: Pairs, judged: Judgement) -> Tensor:
        """The numbers of the texts of the fold that may come to be shown."""
        ratios, owners = judged.log_ratio, points.image_of_text
        if self.per == "image":
            counts = torch.bincount(owners, minlength=len(points.images)).clamp_min(1)
            sums = torch.zeros(len(points.images), dtype=ratios.dtype).index_add(0, owners, ratios)
            ratios = (sums / counts)[owners]
        return ratios.argsort(stable=True)[: self.show]


def _places(part: Sequence[int], owners: Tensor) -> list[Place]:
    """Of each text of a fold, whose texts come image by image."""
    first = np.searchsorted(owners.numpy(), np.arange(len(part)))
    return [(int(part[owner]), row - int(first[owner])) for row, owner in enumerate(owners.tolist())]


def _best_texts(points: Pairs, model: Model, judged: Judgement, images: Tensor) -> tuple[Tensor, Tensor]:
    """The largest log r of each image with a text of another one, and the text's number; -1 where there is none."""
    values = torch.full((len(images),), -torch.inf, dtype=torch.float64)
    best = torch.full((len(images),), -1)
    for start in range(0, len(points.texts), TILE):
        texts = torch.arange(start, min(start + TILE, len(points.texts)))
        fit = judged.fit(points, model.space.similarity, images, texts)
        own = points.image_of_text[texts] == images[:, None]
        found, place = fit.masked_fill(own, -torch.inf).max(dim=1)
        better = found > values
        values, best = torch.where(better, found, values), torch.where(better, texts[place], best)
    return values, best


def _false_negatives(points: Pairs, model: Model, judged: Judgement) -> list[tuple[float, int, int]]:
    """Fit, image and text, the best first; among up to `LARGEST` images, and texts that look right."""
    images = _some(torch.arange(len(points.images)))
    texts = _some(torch.nonzero(judged.right >= 0.5).flatten())
    if not len(texts):
        return []
    place = torch.full((len(points.images),), -1)
    place[images] = torch.arange(len(images))

    def fit(rows: slice, columns: slice) -> Tensor:
        return judged.fit(points, model.space.similarity, images[rows], texts[columns])

    found = closest_strangers(fit, place[points.image_of_text[texts]], len(images), STRANGERS)
    return [(score, int(images[int(image)]), int(texts[int(text)])) for score, image, text in found]


def _some(numbers: Tensor) -> Tensor:
    """The numbers, or `LARGEST` of them at even distances."""
    if len(numbers) <= LARGEST:
        return numbers
    return numbers[torch.linspace(0, len(numbers) - 1, LARGEST).long()]
