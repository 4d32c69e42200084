"""Training data that is not trained on but looked at whole, where some of its pictures cannot be read.

readable_pictures    the records whose pictures can be read: for what is measured on all of them
BlankPictures        all records under their numbers, with a grey picture where there is none: for what says something
                     of each, as an audit does. A caption fits grey no better than it fits any picture.

Either says so once, and raises UserError where these are more than `data.max_bad` allows.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from equipoise.data.bad_records import ADVICE, BadRecord, BadRecordCount, Fault
from equipoise.data.remap import subset
from equipoise.data.source import Pair, Source, can_crop, has_digests

GREY = 127


def readable_pictures(source: Source) -> Source:
    """The records whose pictures can be read; the source itself where that is all of them."""
    if not can_crop(source):
        return source
    faults, kept = list[Fault](), list[int]()
    for index in range(len(source)):
        try:
            source.open(index).image.check()
            kept.append(index)
        except BadRecord as error:
            faults.append(error.fault)
    if not faults:
        return source
    BadRecordCount(source.max_bad, len(source)).add(len(source), faults)
    warnings.warn(
        f"{len(faults):,} of {len(source):,} records are left out, the first for this: {faults[0]}; {ADVICE}",
        stacklevel=2,
    )
    return subset(source, kept)


class BlankPictures:
    """`source`, whatever it offers; `unreadable` are the numbers of the pictures that were asked for and are grey.

    `use` says in the warning what is done with them.
    """

    def __init__(self, source: Source, use: str = "judged"):
        self.source: Any = source
        self.use = use
        self._faults: dict[int, Fault] = {}
        self.picture_digest = self._digest if has_digests(source) else None

    def __len__(self) -> int:
        return len(self.source)

    def __getattr__(self, name: str) -> Any:
        if name == "source":  # not there yet, while it is unpickled
            raise AttributeError(name)
        return getattr(self.source, name)

    @property
    def unreadable(self) -> frozenset[int]:
        return frozenset(self._faults)

    def pair(self, index: int) -> Pair:
        return self.source.pair(index)

    def images(self, indices: Sequence[int], size: int, device: torch.device | str = "cpu") -> Tensor:
        try:
            return self.source.images(indices, size, device)
        except BadRecord:
            return torch.cat([self._one(index, size, device) for index in indices])

    def _one(self, index: int, size: int, device: torch.device | str) -> Tensor:
        try:
            return self.source.images([index], size, device)
        except BadRecord as error:
            self.note(index, error.fault)
            return torch.full((1, 3, size, size), GREY, dtype=torch.uint8, device=device)

    def _digest(self, index: int) -> bytes:
        """Of the picture's file; one that cannot be read equals no other."""
        try:
            return bytes(self.source.picture_digest(index))
        except BadRecord as error:
            self.note(index, error.fault)
            return f"unreadable {index}".encode()

    @property
    def faults_met(self) -> dict[int, Fault]:
        """What is wrong with the pictures that were asked for, by their numbers."""
        return dict(self._faults)

    def note(self, index: int, fault: Fault) -> None:
        """Count a picture that cannot be read, once."""
        if index in self._faults:
            return
        if not self._faults:
            warnings.warn(
                f"{fault}; it is {self.use} as a grey picture, and so is every further one that cannot be read",
                stacklevel=4,
            )
        self._faults[index] = fault
        BadRecordCount(self.source.max_bad, len(self)).add(len(self), list(self._faults.values()))
