"""Records of files as a source: pictures cut and resized on demand."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from equipoise.data.bad_records import BadRecord, Fault
from equipoise.data.decode_threads import map_in_threads
from equipoise.data.encoded_image import EncodedImage, encoded
from equipoise.data.files.records import Records, Subset
from equipoise.data.files.regions import RegionFolder
from equipoise.data.record_numbers import Selection
from equipoise.data.source import Pair, Record

AT_ONCE = 256  # pictures whose files lie in memory, and whose pixels lie beside those of all


class Pictures:
    """A source of records whose images have sizes of their own; with a `region_folder`, of regions and tags too."""

    def __init__(self, records: Records, max_bad: float = 0.01):
        self.records, self.max_bad = records, max_bad
        self.region_folder: RegionFolder | None = None
        self._digests: dict[int, bytes] = {}

    def __len__(self) -> int:
        return len(self.records)

    def pair(self, index: int) -> Pair:
        return self.records.pair(index)

    @property
    def has_regions(self) -> bool:
        return self.region_folder is not None

    def regions(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        assert self.region_folder is not None
        return self.region_folder.regions([self.records.key(index) for index in indices])

    def tags(self, index: int) -> tuple[str, ...]:
        assert self.region_folder is not None
        return self.region_folder.tags(self.records.key(index))

    def open(self, index: int) -> Record:
        pair, image = self.records.read(index)
        return Record(pair, encoded(image, self.records.place(index)))

    def encoded(self, index: int) -> EncodedImage:
        """The image with its header read. Raises BadRecord."""
        return encoded(self.records.image(index), self.records.place(index))

    def picture_digest(self, index: int) -> bytes:
        """A digest of the image's file, read once. Raises BadRecord."""
        if index not in self._digests:
            self._digests[index] = hashlib.blake2b(self.records.image(index), digest_size=16).digest()
        return self._digests[index]

    def images(self, indices: Sequence[int], size: int, device: torch.device | str = "cpu") -> Tensor:
        found = torch.empty(len(indices), 3, size, size, dtype=torch.uint8)
        pixels = np.empty((min(len(indices), AT_ONCE), size, size, 3), dtype=np.uint8)
        for start in range(0, len(indices), AT_ONCE):
            files = [_file(self.records, index) for index in indices[start : start + AT_ONCE]]
            map_in_threads(partial(_fill, pixels), list(enumerate(files)))
            found[start : start + len(files)] = torch.from_numpy(pixels[: len(files)]).permute(0, 3, 1, 2)
        return found.to(device)


class LabelledPictures(Pictures):
    """Pictures whose pairs carry a label, one of `class_names`, and templates filled with it as captions."""

    names_classes = True

    def __init__(self, records: Records, max_bad: float, class_names: tuple[str, ...], templates: tuple[str, ...]):
        super().__init__(records, max_bad)
        self.class_names, self.templates = class_names, templates


def decodable(records: Records) -> Records:
    """The records whose images can be decoded: in evaluation no record may replace another."""
    found: list[Fault | None] = []
    for start in range(0, len(records), AT_ONCE):
        some = range(start, min(start + AT_ONCE, len(records)))
        found += map_in_threads(_fault, [_file(records, index) for index in some])
    faults = [fault for fault in found if fault is not None]
    if not faults:
        return records
    sound = np.array([fault is None for fault in found])
    return Subset(records, Selection(sound), [*records.faults, *faults])


def _file(records: Records, index: int) -> tuple[bytes, str] | Fault:
    """The bytes of a picture and where they are from, or why there are none. Read by the one thread that asks: a table
    keeps the rows that a thread read last."""
    try:
        return records.image(index), records.place(index)
    except BadRecord as error:
        return error.fault


def _fill(pixels: np.ndarray, numbered: tuple[int, tuple[bytes, str] | Fault]) -> None:
    row, file = numbered
    if isinstance(file, Fault):
        raise BadRecord(file.place, file.reason)
    pixels[row] = encoded(*file).square_pixels(pixels.shape[1])


def _fault(file: tuple[bytes, str] | Fault) -> Fault | None:
    """What is wrong with a picture."""
    if isinstance(file, Fault):
        return file
    try:
        encoded(*file).check()
    except BadRecord as error:
        return error.fault
    return None
