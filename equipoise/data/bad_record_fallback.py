"""Pictures cut by their source, with the next readable record in the place of each that cannot be read.

Which record stands in depends on the bad one alone, so every process and every resumed run chooses the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from torch import Tensor

from equipoise.data.bad_records import BadRecords, Fault
from equipoise.data.source import CroppingSource
from equipoise.types import UserError

MOST_IN_A_ROW = 100


@dataclass(frozen=True)
class Cut:
    indices: list[int]  # of the records that were used
    pixels: Tensor  # uint8 [N, 3, size, size]
    faults: tuple[Fault, ...]  # of the records that could not be


def cut(
    source: CroppingSource, indices: Sequence[int], size: int, boxes: Callable[[Sequence[int], Tensor], Tensor]
) -> Cut:
    """Crops of the records; `boxes` takes places in the batch and the sizes [n, 2] of the pictures there."""
    used, faults = list(indices), list[Fault]()
    places: list[int] = list(range(len(used)))
    pixels, bad = _cut(source, used, size, partial(boxes, places))
    for _ in range(MOST_IN_A_ROW):
        faults += bad.values()
        if not bad:
            return Cut(used, pixels, tuple(faults))
        places = [places[number] for number in bad]
        for place in places:
            used[place] = (used[place] + 1) % len(source)
        pixels[places], bad = _cut(source, [used[place] for place in places], size, partial(boxes, places))
    raise UserError(f"{MOST_IN_A_ROW} records in a row cannot be read, the last of them {faults[-1]}; check the data")


def _cut(
    source: CroppingSource, indices: Sequence[int], size: int, boxes: Callable[[Tensor], Tensor]
) -> tuple[Tensor, dict[int, Fault]]:
    try:
        return source.crops(indices, size, boxes), {}
    except BadRecords as error:
        return error.pixels, error.faults
