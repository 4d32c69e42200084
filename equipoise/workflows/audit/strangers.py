"""Neighbours among strangers: images that are alike, and images with texts of others that fit better than their own.

All are compared with all, which grows with the square of their number, so of very many records a sample is looked at,
drawn by the seed of the audit: `MOST` images that are compared with each other, `LARGEST` records by one judge.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch
from torch import Tensor

from equipoise.analysis.near_duplicates import closest_images, closest_strangers
from equipoise.analysis.noise import Pairs, sums_over
from equipoise.data.copies.features import MOST, unit_vectors
from equipoise.data.copies.find import Copy
from equipoise.data.remap import subset
from equipoise.data.rng import generator
from equipoise.data.source import Source, has_features, has_pictures
from equipoise.models.model import Model
from equipoise.workflows.audit.judge import pool_of
from equipoise.workflows.audit.points import Judge, PointsOf

LARGEST = 20_000  # records: so many with a text each take seconds, a million hours


def alike_images(source: Source, copies: Sequence[Copy], count: int, seed: int) -> list[list[float]]:
    """Copies; where there are no pictures to see more by, also those whose features are closest."""
    named: list[list[float]] = [[copy.similarity, copy.first, copy.second] for copy in copies[:count]]
    if not has_features(source) or has_pictures(source):
        return named
    numbers = _some(len(source), MOST, seed, "images whose features are closest")
    some: Source = source if len(numbers) == len(source) else subset(source, numbers)
    assert has_features(some)
    closest = closest_images(unit_vectors(some), lambda rows, columns: rows @ columns.T, count)
    known = {(copy.first, copy.second) for copy in copies}
    found = [[score, numbers[int(one)], numbers[int(other)]] for score, one, other in closest]
    return [*named, *(one for one in found if (one[1], one[2]) not in known)][:count]


def fitting_texts(
    source: Source, judge: Judge, scale: float, points_of: PointsOf, owners: Tensor, count: int, seed: int
) -> list[list[float]]:
    """The best fitting image and text of another record, as [log r, image, text]; `owners` [M] are the numbers of all
    texts' images, in order."""
    numbers = _some(len(source), LARGEST, seed, "texts of other records that fit an image")
    found = _fitting(points_of(judge, source, numbers), judge.model, scale, count, seed)
    if len(numbers) == len(source):
        return found
    texts = torch.isin(owners, torch.tensor(numbers)).nonzero().flatten().tolist()  # of the sample, in order too
    return [[fit, numbers[int(image)], texts[int(text)]] for fit, image, text in found]


def _fitting(points: Pairs, model: Model, scale: float, count: int, seed: int) -> list[list[float]]:
    similarity = model.space.similarity
    pool, same = pool_of(points, seed)
    sums = sums_over(points, pool, same, similarity, torch.tensor([scale], dtype=torch.float64))
    by_image, by_text = (part.mean()[0] for part in sums)

    def fit(rows: slice, columns: slice) -> Tensor:
        block = scale * similarity(points.images[rows], points.texts[columns])
        return block - (by_image[rows, None] + by_text[columns]) / 2

    return closest_strangers(fit, points.image_of_text, len(points.images), count)


def _some(count: int, most: int, seed: int, what: str) -> Sequence[int]:
    """The numbers of all records, or of `most` of them in order, which is said."""
    if count <= most:
        return range(count)
    warnings.warn(
        f"{what} are looked for among {most:,} of the {count:,} records, drawn at random: comparing all with all takes "
        "too long",
        stacklevel=3,
    )
    return tuple(torch.randperm(count, generator=generator(seed, "strangers"))[:most].sort().values.tolist())
