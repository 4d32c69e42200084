"""Pairs that a data set holds more than once: the same captions, word for word, and nearly the same picture.

A judge that was trained on the copy of a pair has seen that pair, so copies are held out together. Only records with
equal captions are looked at, so this costs little; a picture that comes with another caption each time is not found.
Pictures are compared as thumbnails, by correlation, features of pictures likewise. A caption of very many records
("photo") is not worth the look.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from equipoise.data.keep.records import records
from equipoise.data.source import Source
from equipoise.types import UserError

MOST = 0.01  # of all records: so many with the same captions are not compared
SIDE, ALIKE = 16, 0.98  # pixels of a thumbnail; correlation of two that are copies


def held_together(parts: Sequence[Sequence[int]], source: Source) -> list[tuple[int, ...]]:
    """The same folds with every copy moved into the fold of the first of its kind."""
    fold = {number: place for place, part in enumerate(parts) for number in part}
    for first, *copies in copied_records(source):
        fold |= dict.fromkeys(copies, fold[first])
    moved: list[list[int]] = [[] for _ in parts]
    for number in sorted(fold):
        moved[fold[number]].append(number)
    return [tuple(part) for part in moved] if all(moved) else [tuple(part) for part in parts]


def copied_records(source: Source) -> Iterator[list[int]]:
    """The numbers of records that are copies of one another, two or more together."""
    for numbers in _same_captions(source):
        looks = [_look(source, number) for number in numbers]
        groups: dict[int, list[int]] = {}
        for place, number in enumerate(numbers):
            near = (row for row in groups if _alike(looks[row], looks[place]))
            groups.setdefault(next(near, place), []).append(number)
        yield from (group for group in groups.values() if len(group) > 1)


def _same_captions(source: Source) -> list[list[int]]:
    same: dict[bytes, list[int]] = defaultdict(list)
    for number, (_, texts) in enumerate(records(source)):
        if len(texts):
            same[texts.tobytes()].append(number)
    return [numbers for numbers in same.values() if 1 < len(numbers) <= max(2, MOST * len(source))]


def _look(source: Any, number: int) -> Tensor | None:
    """A vector of the picture, centred; None where it cannot be read."""
    try:
        if getattr(source, "image_features", None) is not None:
            vector = source.image_features([number])[0].flatten(1)[0]
        else:
            vector = source.images([number], SIDE)[0].flatten().float()
    except UserError:  # a broken record is met, and counted, in training
        return None
    return vector - vector.mean()


def _alike(one: Tensor | None, other: Tensor | None) -> bool:
    if one is None or other is None or one.shape != other.shape:
        return False
    if torch.equal(one, other):
        return True
    return float(torch.nn.functional.cosine_similarity(one, other, dim=0)) >= ALIKE
