"""Example retrievals to look at: the queries a model answers best and worst, both ways."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from equipoise.data.remap import subset
from equipoise.data.source import Source, has_features, is_judged
from equipoise.evaluation.copies import Matches, find_copies
from equipoise.evaluation.encoding import Captions, captions, encode_images, has_captions
from equipoise.models.model import Model
from equipoise.reports.report import ExampleSets, ImageQuery, TextQuery

SHOWN_IMAGES, SHOWN_TEXTS = 5, 3
LARGEST_POOL = 1000  # images ranked for examples; a sample is enough to look at
PICTURE_SIZE = 128


@dataclass(frozen=True)
class _Pool:
    """What is ranked: similarities [N, N] of images and their first captions, and the truth about them."""

    texts: list[str]
    similarity: Tensor
    relevant: np.ndarray  # [N, N] bool
    same: Tensor  # [N, N] bool, an image and its own caption, or copies of them
    pictures: Source

    def picture(self, index: int) -> np.ndarray:
        return self.pictures.images([index], PICTURE_SIZE)[0].permute(1, 2, 0).cpu().numpy()


def gather_examples(model: Model, source: Source, count: int = 4) -> ExampleSets:
    """`count` queries of each kind, from at most `LARGEST_POOL` images and their first captions; none of data
    that cannot be looked at, or whose captions are names of classes, the same for many."""
    if has_features(source) or not has_captions(source):
        return ExampleSets()
    pool = _pool(model, source)
    texts, images = _by_success(pool.similarity.T, pool.same.T), _by_success(pool.similarity, pool.same)
    return ExampleSets(
        best_texts=[_text_query(pool, number) for number in texts[:count]],
        worst_texts=[_text_query(pool, number) for number in texts[-count:][::-1]],
        best_images=[_image_query(pool, number) for number in images[:count]],
        worst_images=[_image_query(pool, number) for number in images[-count:][::-1]],
    )


def _pool(model: Model, source: Source) -> _Pool:
    size = min(len(source), LARGEST_POOL)
    texts = Captions(captions(source, 1).texts[:size], torch.arange(size))
    points = encode_images(model, source, batch_size=256, limit=size)
    similarity = model.similarity(points, texts.points(model)).cpu()
    copies = find_copies(subset(source, range(size)), texts)
    same = Matches(torch.arange(size), size, copies).block(slice(0, size), by_text=False)
    relevant = source.relevance(range(size), texts.texts) if is_judged(source) else same.numpy()
    return _Pool(texts.texts, similarity, relevant, same, source)


def _by_success(scores: Tensor, same: Tensor) -> list[int]:
    """Queries (rows, whose own answer is on the diagonal) from the clearest success to the clearest failure."""
    own = scores.diagonal()
    rival = scores.masked_fill(same, -torch.inf).amax(dim=1)
    return (own - rival).argsort(descending=True).tolist()


def _text_query(pool: _Pool, number: int) -> TextQuery:
    values, found = _nearest(pool.similarity[:, number], SHOWN_IMAGES)
    return TextQuery(
        text=pool.texts[number],
        images=[pool.picture(index) for index in found],
        correct=pool.relevant[found, number].tolist(),
        similarity=values,
        labelled=[index == number for index in found],
    )


def _image_query(pool: _Pool, number: int) -> ImageQuery:
    values, found = _nearest(pool.similarity[number], SHOWN_TEXTS)
    return ImageQuery(
        image=pool.picture(number),
        texts=[pool.texts[index] for index in found],
        correct=pool.relevant[number, found].tolist(),
        similarity=values,
        labelled=[index == number for index in found],
    )


def _nearest(scores: Tensor, count: int) -> tuple[list[float], list[int]]:
    """The highest scores and where they are."""
    values, found = scores.topk(min(count, len(scores)))
    return values.tolist(), found.tolist()
