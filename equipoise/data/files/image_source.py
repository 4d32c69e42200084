"""Records of files as a source: pictures cut and resized on demand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from equipoise.data.bad_records import BadRecord, BadRecords, Fault
from equipoise.data.encoded_image import Encoded, encoded
from equipoise.data.files.records import Records, Subset
from equipoise.data.files.regions import RegionFolder
from equipoise.data.source import Boxes, Pair


class Pictures:
    """A source that cuts its own crops. `class_names` makes it a labelled one, `found` one with regions and tags."""

    def __init__(self, records: Records, max_bad: float = 0.01):
        self.records, self.max_bad = records, max_bad
        self.found: RegionFolder | None = None

    def __len__(self) -> int:
        return len(self.records)

    def pair(self, index: int) -> Pair:
        return self.records.pair(index)

    @property
    def has_regions(self) -> bool:
        return self.found is not None

    def regions(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        assert self.found is not None
        return self.found.regions([self.records.key(index) for index in indices])

    def tags(self, index: int) -> tuple[str, ...]:
        assert self.found is not None
        return self.found.tags(self.records.key(index))

    def encoded(self, index: int) -> Encoded:
        """The picture with its header read. Raises BadRecord."""
        return encoded(self.records.image(index), self.records.place(index))

    def images(self, indices: Sequence[int], size: int, device: torch.device | str = "cpu") -> Tensor:
        pixels = torch.empty(len(indices), 3, size, size, dtype=torch.uint8)
        for row, index in zip(pixels, indices, strict=True):
            row.copy_(self.encoded(index).square(size))
        return pixels.to(device)

    def crops(self, indices: Sequence[int], size: int, boxes: Boxes) -> Tensor:
        pictures: dict[int, Encoded] = {}
        faults: dict[int, Fault] = {}
        sizes = torch.ones(len(indices), 2)
        for place, index in enumerate(indices):
            try:
                pictures[place] = self.encoded(index)
                sizes[place] = torch.tensor([pictures[place].height, pictures[place].width])
            except BadRecord as error:
                faults[place] = error.fault
        pixels = torch.zeros(len(indices), 3, size, size, dtype=torch.uint8)
        wanted = boxes(sizes).tolist()
        for place, picture in pictures.items():
            try:
                pixels[place] = picture.part(wanted[place], size)
            except BadRecord as error:
                faults[place] = error.fault
        if faults:
            raise BadRecords(pixels, dict(sorted(faults.items())))
        return pixels


class LabelledPictures(Pictures):
    """Pictures whose pairs carry a label, one of `class_names`."""

    def __init__(self, records: Records, max_bad: float, class_names: tuple[str, ...], templates: tuple[str, ...]):
        super().__init__(records, max_bad)
        self.class_names, self.templates = class_names, templates


def decodable(records: Records) -> Records:
    """The records whose images can be decoded: in evaluation nothing may stand in for another."""
    faults, kept = [], []
    for index in range(len(records)):
        try:
            encoded(records.image(index), records.place(index)).check()
            kept.append(index)
        except BadRecord as error:
            faults.append(error.fault)
    if not faults:
        return records
    return Subset(records, np.array(kept, dtype=np.int64), [*records.faults, *faults])
