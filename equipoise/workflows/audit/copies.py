"""Pairs that a data set holds more than once: the same captions, word for word, and nearly the same picture.

A judge that was trained on the copy of a pair has seen that pair, so copies are held out together. Only records with
equal captions are looked at, so this costs little; a picture that comes with another caption each time is not found.
Pictures are compared as thumbnails, by correlation, features of pictures likewise. A caption of very many records
("photo") is not worth the look.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from equipoise.data.keep.records import records
from equipoise.data.source import Source
from equipoise.types import UserError

MOST = 0.01  # of all records: so many with the same captions are not compared
AT_ONCE = 256  # pictures
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
    for several in _chunks(_same_captions(source)):
        looks = _looks(source, [number for numbers in several for number in numbers])
        for numbers in several:
            yield from _alike_among(numbers, looks)


def _alike_among(numbers: Sequence[int], looks: Mapping[int, Tensor]) -> list[list[int]]:
    groups: dict[int, list[int]] = {}
    for number in filter(looks.__contains__, numbers):
        near = (first for first in groups if _alike(looks[first], looks[number]))
        groups.setdefault(next(near, number), []).append(number)
    return [group for group in groups.values() if len(group) > 1]


def _chunks(groups: Sequence[list[int]]) -> Iterator[list[list[int]]]:
    """Groups of `AT_ONCE` records or a little more in all."""
    chunk: list[list[int]] = []
    for group in groups:
        chunk.append(group)
        if sum(map(len, chunk)) >= AT_ONCE:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _same_captions(source: Source) -> list[list[int]]:
    same: dict[bytes, list[int]] = defaultdict(list)
    for number, (_, texts) in enumerate(records(source)):
        if len(texts):
            same[texts.tobytes()].append(number)
    return [numbers for numbers in same.values() if 1 < len(numbers) <= max(2, MOST * len(source))]


def _looks(source: Any, numbers: Sequence[int]) -> dict[int, Tensor]:
    """A vector of each picture, centred, by the record's number; a record that cannot be read has none."""
    try:
        if getattr(source, "image_features", None) is not None:
            vectors = source.image_features(numbers)[0].flatten(1)
        else:
            vectors = source.images(numbers, SIDE).flatten(1).float()
    except UserError:  # a broken record is met, and counted, in training
        each = (_looks(source, [number]) for number in numbers) if len(numbers) > 1 else ()
        return {number: look for looks in each for number, look in looks.items()}
    return dict(zip(numbers, vectors - vectors.mean(dim=1, keepdim=True), strict=True))


def _alike(one: Tensor, other: Tensor) -> bool:
    if torch.equal(one, other):
        return True
    return float(torch.nn.functional.cosine_similarity(one, other, dim=0)) >= ALIKE
