"""Training crops of records: each record is read once and decoded once, however many crops are cut from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from equipoise.data.bad_records import BadRecord, Fault, replace_bad
from equipoise.data.source import CroppingSource, Pair, Record

# places in the batch, heights and widths [n, 2] of the images there -> boxes [n, 4] as x0, y0, x1, y1 in pixels
Boxes = Callable[[Sequence[int], Tensor], Tensor]
Judge = Callable[[Mapping[int, Pair]], Mapping[int, str]]  # pairs by their places -> what is wrong with some


@dataclass(frozen=True)
class Crops:
    """Crops of a batch: one tensor per view, one row per record."""

    indices: list[int]  # the records that were used
    pixels: list[Tensor]  # per view, [N, 3, size, size]
    pairs: Sequence[Pair] = ()  # of the records, where they were read on the way
    faults: tuple[Fault, ...] = ()  # of those records asked for that could not be used


def cut_crops(
    source: CroppingSource, indices: Sequence[int], size: int, views: Sequence[Boxes], judge: Judge | None = None
) -> Crops:
    """One crop per record and view, uint8; the next readable record replaces each that cannot be read or that `judge`
    finds fault with."""
    # in memory by pixels, as crops are, so that no row is turned into planes before the whole batch is normalised
    shape = (len(indices), size, size, 3)
    pixels = [torch.empty(shape, dtype=torch.uint8).permute(0, 3, 1, 2) for _ in views]
    read: dict[int, Pair] = {}

    def attempt(places: Sequence[int], numbers: Sequence[int]) -> dict[int, Fault]:
        records, faults = _open_all(source, places, numbers)
        pairs = {place: record.pair for place, record in records.items()}
        for place, reason in (judge(pairs) if judge else {}).items():
            faults[place] = Fault(records.pop(place).image.place, reason)
        images = [records[place].image if place in records else None for place in places]
        sizes = torch.tensor([(image.height, image.width) if image else (1, 1) for image in images]).float()
        boxes = torch.stack([view(places, sizes) for view in views], 1).tolist()  # [n, views, 4]
        for row, place in enumerate(places):
            if place not in records:
                continue
            try:
                for view, crop in zip(pixels, records[place].image.crops(boxes[row], size), strict=True):
                    view[place] = crop
            except BadRecord as error:
                faults[place] = error.fault
            read[place] = pairs[place]
        return faults

    used, faults = replace_bad(indices, len(source), attempt)
    return Crops(used, pixels, [read[place] for place in range(len(used))], faults)


def _open_all(
    source: CroppingSource, places: Sequence[int], numbers: Sequence[int]
) -> tuple[dict[int, Record], dict[int, Fault]]:
    """Records, or what is wrong with them, by their places."""
    records, faults = dict[int, Record](), dict[int, Fault]()
    for place, number in zip(places, numbers, strict=True):
        try:
            records[place] = source.open(number)
        except BadRecord as error:
            faults[place] = error.fault
    return records, faults
