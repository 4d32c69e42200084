"""What records of the same captions look like, and which of them look the same.

A look is a thumbnail of `SIDE` pixels or features (of several tokens the real ones, with 0 after them), less its mean
and of length 1: the product of two is their correlation. The column before it is 1 where nothing is left, as of a white
picture, which correlates with nothing and is the same as another one.

Looks are read `AT_ONCE` at a time and compared in tiles of so many by so many. In memory are two tiles and up to `HELD`
bytes of looks that are not read again; those beyond are, once for each later tile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from equipoise.data.source import Source
from equipoise.types import UserError

SIDE, ALIKE = 16, 0.98  # pixels of a thumbnail; correlation of two that are copies
AT_ONCE = 256  # records
HELD = 1 << 29  # bytes: 170,000 thumbnails, or 100,000 vectors of 1,280 features
FLAT = 1e-8  # length of a look that has nothing but its mean


class Looks:
    """Of a source's records by their numbers."""

    def __init__(self, source: Source):
        self._source, self._left = source, HELD
        self._held: dict[int, Tensor | None] = {}

    def of(self, numbers: Sequence[int]) -> tuple[list[int], Tensor]:
        """The numbers of those that can be read, and their looks [n, 1 + w]."""
        read = _read(self._source, [number for number in numbers if number not in self._held])
        found = {number: read[number] if number in read else self._held[number] for number in numbers}
        size = sum(look.nbytes for look in read.values() if look is not None)
        if size <= self._left:
            self._held.update(read)
            self._left -= size
        looks = {number: look for number, look in found.items() if look is not None}
        return list(looks), pad_sequence(list(looks.values()), batch_first=True) if looks else torch.zeros(0, 1)


def alike_among(numbers: Sequence[int], looks: Looks) -> list[list[int]]:
    """Groups of two or more in order: each record goes with the first one that it is like, of those that are like none
    before them."""
    groups: dict[int, list[int]] = {}
    for part in _parts(numbers):
        tile, seen = looks.of(part)
        first = _first_alike(list(groups), seen, looks)
        near = _near(seen, seen)
        for place, number in enumerate(tile):
            if first[place] < 0:
                first[near[place] & (first < 0)] = number  # all before it have theirs
                first[place] = number
            groups.setdefault(int(first[place]), []).append(number)
    return [group for group in groups.values() if len(group) > 1]


def _first_alike(leaders: Sequence[int], seen: Tensor, looks: Looks) -> Tensor:
    """Of each look, the first of these records that it is like [n], or -1."""
    first = torch.full((len(seen),), -1)
    for part in _parts(leaders):
        left = (first < 0).nonzero().flatten()
        if not len(left):
            break
        tile, theirs = looks.of(part)
        near = _near(theirs, seen[left])
        found = near.any(dim=0)
        first[left[found]] = torch.tensor(tile)[near[:, found].int().argmax(dim=0)]
    return first


def _near(one: Tensor, other: Tensor) -> Tensor:
    """Bool [n, m]; one may have more tokens than the other, which has 0 there."""
    width = min(one.shape[1], other.shape[1])
    return one[:, :width] @ other[:, :width].T >= ALIKE


def _parts(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    return (numbers[start : start + AT_ONCE] for start in range(0, len(numbers), AT_ONCE))


def _read(source: Any, numbers: Sequence[int]) -> dict[int, Tensor | None]:
    """The look of each record; None of one that cannot be read."""
    if not numbers:
        return {}
    try:
        values, real = _values(source, numbers)
    except UserError:  # a broken record is met, and counted, in training
        if len(numbers) == 1:
            return {numbers[0]: None}
        return {number: look for one in numbers for number, look in _read(source, [one]).items()}
    means = values.sum(dim=1, keepdim=True) / real.sum(dim=1, keepdim=True).clamp_min(1)
    centred = (values - means) * real
    lengths = centred.norm(dim=1, keepdim=True)
    looks = torch.cat([lengths <= FLAT, centred / lengths.clamp_min(FLAT)], dim=1)
    return dict(zip(numbers, looks, strict=True))


def _values(source: Any, numbers: Sequence[int]) -> tuple[Tensor, Tensor]:
    """What is seen of each record [n, w], 0 where it is not real; and where it is, bool [n, w]."""
    if getattr(source, "image_features", None) is None:
        pixels = source.images(numbers, SIDE).flatten(1).float()
        return pixels, torch.ones_like(pixels, dtype=torch.bool)
    values, mask = source.image_features(numbers)
    real = torch.ones_like(values, dtype=torch.bool) if mask is None else mask[..., None].expand_as(values)
    return values.where(real, 0).flatten(1).float(), real.flatten(1)
