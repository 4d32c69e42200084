"""Judging pairs by a model that has not been trained on them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from equipoise.analysis.noise import SAMPLE, NoiseEstimate, Pairs, log_ratios, own_similarity, read_noise
from equipoise.data.source import Source
from equipoise.evaluation.encoding import captions, encode_images
from equipoise.models.model import Model

BATCH = 256


@dataclass(frozen=True)
class Judgement:
    """One judge's numbers for the texts of a fold, in the order of its images."""

    reading: NoiseEstimate
    check: NoiseEstimate  # the same with a further share of the pairs shuffled
    similarity: Tensor  # [M]
    log_ratio: Tensor  # [M]
    right: Tensor  # [M] the probability that a pair is right
    image_of_text: Tensor  # [M]


def points_of(model: Model, source: Source) -> Pairs:
    texts = captions(source, 0)
    return Pairs(encode_images(model, source, BATCH).cpu(), texts.points(model).cpu(), texts.image_of_text)


def judge(points: Pairs, model: Model, seed: int, shuffled: float) -> Judgement:
    """Estimate the noise level of the pairs, check it, and give each pair's probability to be right."""
    similarity = model.space.similarity
    reading = read_noise(points, similarity, seed)
    check = read_noise(_shuffled(points, shuffled, seed), similarity, seed)
    pool, place = pool_of(points, seed)
    scale = torch.tensor([reading.scale], dtype=torch.float64)
    ratios = log_ratios(points, pool, place, similarity, scale)[0]
    own = own_similarity(points, similarity)
    return Judgement(reading, check, own, ratios, reading.right(ratios), points.image_of_text)


def pool_of(points: Pairs, seed: int) -> tuple[Pairs, Tensor]:
    """A sample of the pairs, to compare all with, and the place of each image in it, or -1."""
    pool, owners = points.sample(SAMPLE, seed)
    place = torch.full((len(points.images),), -1)
    place[owners] = torch.arange(len(owners))
    return pool, place


def _shuffled(points: Pairs, share: float, seed: int) -> Pairs:
    """The pairs with the texts of a share of the images, two at least, shuffled among these."""
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(len(points.images), generator=generator)[: max(2, int(share * len(points.images)))]
    owner = torch.arange(len(points.images))
    owner[chosen] = chosen.roll(1)
    return Pairs(points.images, points.texts, owner[points.image_of_text])
