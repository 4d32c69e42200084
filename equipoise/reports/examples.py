"""Example retrievals to look at: the queries a model answers best and worst, both ways, of the whole test set.

A query's place is that of its first match in the ranking, ties against the model (`evaluation/ranking.py`).

    worst   the largest place; of equal ones that whose match is farthest behind the closest non-match
    best    the smallest place; of equal ones that whose match is farthest ahead of it

What is equal in both stays in the order of the data; a caption that comes again is asked once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from equipoise.data.source import has_features
from equipoise.evaluation.ranking import first_position
from equipoise.reports.held_out import HeldOut
from equipoise.reports.report import ExampleSets, ImageQuery, TextQuery

SHOWN_IMAGES, SHOWN_TEXTS = 5, 3
PICTURE_SIZE = 128


@dataclass(frozen=True)
class _Ranked:
    """A query: its number, the place of its first match, and by how much that is closer than every non-match."""

    number: int
    place: int
    margin: float


def gather_examples(data: HeldOut, count: int = 4) -> ExampleSets:
    """`count` queries of each kind; none of data that cannot be looked at."""
    if has_features(data.source):
        return ExampleSets()
    (best_texts, worst_texts), (best_images, worst_images) = (_extremes(data, way, count) for way in (True, False))
    return ExampleSets(
        best_texts=[_text_query(data, query) for query in best_texts],
        worst_texts=[_text_query(data, query) for query in worst_texts],
        best_images=[_image_query(data, query) for query in best_images],
        worst_images=[_image_query(data, query) for query in worst_images],
    )


@torch.no_grad()
def _extremes(data: HeldOut, by_text: bool, count: int) -> tuple[list[_Ranked], list[_Ranked]]:
    """The best and the worst queries; one without a match is neither."""
    queries: list[_Ranked] = []
    for numbers, scores, matching in data.blocks(by_text):
        own, rival = (scores.masked_fill(hidden, -torch.inf).amax(dim=1) for hidden in (~matching, matching))
        found = zip(numbers, first_position(scores, matching).tolist(), (own - rival).tolist(), strict=True)
        queries += [_Ranked(*one) for one in found if one[1]]
    if by_text:
        queries = list({data.captions.texts[query.number]: query for query in reversed(queries)}.values())[::-1]
    best = sorted(queries, key=lambda query: (query.place, -query.margin))
    worst = sorted(queries, key=lambda query: (-query.place, query.margin))
    return best[:count], worst[:count]


def _text_query(data: HeldOut, query: _Ranked) -> TextQuery:
    found, similarity, correct = _nearest(data, query.number, SHOWN_IMAGES, by_text=True)
    return TextQuery(
        text=data.captions.texts[query.number],
        images=[_picture(data, index) for index in found],
        correct=correct,
        similarity=similarity,
        labelled=(data.owners[query.number] == torch.tensor(found)).tolist(),
        place=query.place,
        among=len(data.images),
    )


def _image_query(data: HeldOut, query: _Ranked) -> ImageQuery:
    found, similarity, correct = _nearest(data, query.number, SHOWN_TEXTS, by_text=False)
    return ImageQuery(
        image=_picture(data, query.number),
        texts=[data.captions.texts[index] for index in found],
        correct=correct,
        similarity=similarity,
        labelled=(data.owners[found] == query.number).tolist(),
        place=query.place,
        among=len(data.texts),
    )


def _nearest(data: HeldOut, number: int, count: int, by_text: bool) -> tuple[list[int], list[float], list[bool]]:
    """The closest candidates of a query, their similarities and whether they match."""
    ((_, scores, matching),) = data.blocks(by_text, [number])
    order = _by_similarity(scores[0], matching[0])[:count]
    return order.tolist(), scores[0, order].tolist(), matching[0, order].tolist()


def _by_similarity(scores: Tensor, matching: Tensor) -> Tensor:
    """Candidates, the closest first; of equal ones those that do not match come first, as in the ranking."""
    misses_first = matching.int().argsort(stable=True)
    return misses_first[scores[misses_first].argsort(descending=True, stable=True)]


def _picture(data: HeldOut, index: int) -> np.ndarray:
    return data.source.images([index], PICTURE_SIZE)[0].permute(1, 2, 0).cpu().numpy()
