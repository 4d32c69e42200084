"""Regions beside the pictures in shards: `KEY.regions.npy`, or `.npz` with an array `features`.

An array [R, w] of floats; the last 4 of the w are the region's box: x0, y0, x1, y1 from 0 to 1. Tags are those of the
record's `.json`. All arrays are read once at the start, so that a record whose regions cannot be used is left out like
one without a caption, and again when their batch comes.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from equipoise.data.bad_records import Fault
from equipoise.data.files.key_table import KeyTable
from equipoise.data.files.records import Records, Subset
from equipoise.data.files.regions import BOX, padded
from equipoise.data.record_numbers import Selection, record_numbers
from equipoise.types import UserError

INSIDE = "inside"
ENDINGS = ("regions.npy", "regions.npz")


class RegionsInside:
    """`records` are those whose regions, if they have any, can be used."""

    home = "the shards"

    def __init__(self, records: Records):
        self.most, self.width = 0, 0
        faults, usable, counts = list[Fault](), np.zeros(len(records), dtype=bool), list[int]()
        for index in range(len(records)):
            try:
                found = _read(records, index)
                if len(found) and found.shape[1] != (self.width or found.shape[1]):
                    raise ValueError(f"regions of {found.shape[1]} numbers, not {self.width} as those before")
            except ValueError as error:
                faults.append(Fault(records.place(index), f"its regions cannot be used: {error}"))
                continue
            self.most = max(self.most, len(found))
            self.width = self.width or (found.shape[1] if len(found) else 0)
            usable[index] = True
            counts.append(len(found))
        self.records = Subset(records, Selection(usable), [*records.faults, *faults])
        self._counts = record_numbers(counts)
        self._rows = KeyTable(self.records.key, len(self.records))
        if (again := self._rows.repeated()) is not None:
            place = self.records.place(again)
            raise UserError(f"{place} has the key of another record, by which regions are found")
        if not self.most and not faults:
            raise UserError(f"no record has a .{ENDINGS[0]} beside its picture; write them, or use `equipoise regions`")

    def regions(self, keys: Sequence[str]) -> tuple[Tensor, Tensor]:
        arrays = (_read(self.records, self._rows[key]) if self.count(key) else () for key in keys)
        return padded([torch.tensor(array).view(-1, self.width) for array in arrays], self.most, self.width)

    def tags(self, key: str) -> tuple[str, ...]:
        return self.records.pair(self._rows[key]).tags

    def count(self, key: str) -> int:
        return int(self._counts[self._rows[key]])


def _read(records: Records, index: int) -> np.ndarray:
    """float32 [R, w] of a record, [0, 0] where it has no regions. Raises ValueError."""
    files = records.side_files(index)
    names = [name for name in ENDINGS if name in files]
    if not names:
        return np.zeros((0, 0), np.float32)
    if len(names) > 1:
        raise ValueError("there are both a .npy and a .npz")
    try:
        loaded = np.load(io.BytesIO(files[names[0]]), allow_pickle=False)
        array = loaded if isinstance(loaded, np.ndarray) else loaded["features"]
    except (ValueError, KeyError, OSError, EOFError, MemoryError, OverflowError, zipfile.BadZipFile) as error:
        raise ValueError(f".{names[0]} is no array of numbers ({error})") from None
    if array.ndim != 2 or array.shape[1] <= BOX or array.dtype.kind != "f":
        raise ValueError(f"they are {array.dtype} of shape {list(array.shape)}, not floats [R, w] with w above {BOX}")
    array = array.astype(np.float32)
    if not np.isfinite(array).all():
        raise ValueError("some of their numbers are not finite")
    boxes = array[:, -BOX:]
    if ((boxes < 0) | (boxes > 1)).any():
        raise ValueError(f"the last {BOX} numbers of a region are its box, x0, y0, x1, y1 from 0 to 1")
    return array
