"""Several sources as one, each with its weight.

    [data]
    name = "mixture"
    weights = [2, 1]                 one per part, in their order; by size where they are not given

    [data.parts.photos]
    name = "shards"
    train = "photos-{000..099}.tar"

    [data.parts.shop]
    name = "table"
    train = "shop.csv"

In training every record of a part comes equally often in an epoch, a whole number of times, chosen so that the parts
come near their weights. Validation and test hold every record once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from equipoise.data.files.file_source import FileSettings
from equipoise.data.files.image_folder import Folders
from equipoise.data.files.image_source import Pictures
from equipoise.data.files.picture_folder import PictureFolder
from equipoise.data.files.regions import same_width
from equipoise.data.files.table import Table
from equipoise.data.files.webdataset import Shards
from equipoise.data.files.webdataset_classes import ClassShards
from equipoise.data.record_numbers import record_numbers
from equipoise.data.source import Pair, Record
from equipoise.settings.choice import choices
from equipoise.types import UserError

MOST_REPEATS = 32
NEAR_ENOUGH = 0.02  # relative error of a weight
PARTS: dict[str, type[FileSettings]] = {
    "shards": Shards,
    "table": Table,
    "folders": Folders,
    "pictures": PictureFolder,
    "class_shards": ClassShards,
}


class Mixture:
    @dataclass(frozen=True)
    class Config:
        parts: Mapping[str, FileSettings] = choices(PARTS, "shards")  # the data sets, each under a name of its own
        weights: tuple[float, ...] = ()  # how often each is drawn, one for each part; none: by their sizes

        def __post_init__(self) -> None:
            if self.weights and (len(self.weights) != len(self.parts) or min(self.weights) <= 0):
                named = ", ".join(self.parts)
                raise UserError(f"weights is {self.weights}; give one number above 0 for each of the parts {named}")

        def build(self, split: str) -> Mixture:
            if not self.parts:
                raise UserError("data.parts is empty; write a table [data.parts.NAME] for each part of the mixture")
            sources = [part.build(split) for part in self.parts.values()]
            same_width([source.region_folder for source in sources if source.region_folder is not None])
            sizes = [len(source) for source in sources]
            weights = self.weights if self.weights and split == "train" else sizes
            return Mixture(tuple(self.parts), sources, repeats(sizes, weights))

    def __init__(self, names: Sequence[str], sources: Sequence[Pictures], times: Sequence[int]):
        self.names, self.sources = names, sources
        self.max_bad = min(source.max_bad for source in sources)
        self._source, self._record = _interleaved([len(source) for source in sources], times)

    def __len__(self) -> int:
        return len(self._source)

    def shares(self) -> dict[str, float]:
        """How much of the mixture each part is."""
        counts = np.bincount(self._source, minlength=len(self.sources))
        return dict(zip(self.names, (counts / len(self)).tolist(), strict=True))

    def origin(self, index: int) -> tuple[Pictures, int]:
        """The part that a record is of, and its number there."""
        return self.sources[self._source[index]], int(self._record[index])

    def pair(self, index: int) -> Pair:
        source, record = self.origin(index)
        return source.pair(record)

    def open(self, index: int) -> Record:
        source, record = self.origin(index)
        return source.open(record)

    def picture_digest(self, index: int) -> bytes:
        return self.sources[self._source[index]].picture_digest(int(self._record[index]))

    @property
    def has_regions(self) -> bool:
        return any(source.has_regions for source in self.sources)

    def regions(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Regions of each record from its own part; none for a part without any."""
        found = [source.region_folder for source in self.sources if source.region_folder is not None]
        width = max((part.width for part in found if part.most), default=found[0].width)
        features = torch.zeros(len(indices), max(1, *(part.most for part in found)), width)
        mask = torch.zeros(features.shape[:2], dtype=torch.bool)
        for source, places, records in self._by_source(indices):
            if source.region_folder is not None and source.region_folder.most:
                own, real = source.regions(records)
                features[places, : own.shape[1]], mask[places, : own.shape[1]] = own, real
        return features, mask

    def tags(self, index: int) -> tuple[str, ...]:
        source = self.sources[self._source[index]]
        return source.tags(int(self._record[index])) if source.has_regions else ()

    def images(self, indices: Sequence[int], size: int, device: torch.device | str = "cpu") -> Tensor:
        pixels = torch.empty(len(indices), 3, size, size, dtype=torch.uint8)
        for source, places, records in self._by_source(indices):
            pixels[places] = source.images(records, size)
        return pixels.to(device)

    def _by_source(self, indices: Sequence[int]) -> list[tuple[Pictures, list[int], list[int]]]:
        """Each source with the places of its records among `indices`, and their numbers in it."""
        owners, records = self._source[list(indices)], self._record[list(indices)]
        found = []
        for number, source in enumerate(self.sources):
            places = np.flatnonzero(owners == number)
            if len(places):
                found.append((source, places.tolist(), records[places].tolist()))
        return found


def repeats(sizes: Sequence[int], weights: Sequence[float]) -> list[int]:
    """How often each part is repeated so that the parts come in the ratio of the weights."""
    wanted = np.array(weights, dtype=float) / np.array(sizes)  # visits of one record of each, up to a factor
    wanted /= wanted.min()
    if wanted.max() > MOST_REPEATS:
        raise UserError(
            f"data.weights ask for {wanted.max():.0f} repeats of one part in each epoch of another, and {MOST_REPEATS} "
            "are the most; give the small part less weight"
        )
    candidates = [np.round(wanted * k) for k in range(1, int(MOST_REPEATS / wanted.max()) + 1)]
    errors = [np.abs(times / wanted / (times / wanted).mean() - 1).max() for times in candidates]
    near = [times for times, error in zip(candidates, errors, strict=True) if error < NEAR_ENOUGH]
    return (near or [candidates[int(np.argmin(errors))]])[0].astype(int).tolist()


def _interleaved(sizes: Sequence[int], times: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """The source and the record of each number; the parts are mixed evenly, so that any stretch is like the whole."""
    visits = [size * n for size, n in zip(sizes, times, strict=True)]
    owners = np.repeat(np.arange(len(sizes)), visits)
    records = np.concatenate([np.arange(count) % size for count, size in zip(visits, sizes, strict=True)])
    places = np.concatenate([(np.arange(count) + 0.5) / count for count in visits])
    order = np.argsort(places, kind="stable")
    return record_numbers(owners[order]), record_numbers(records[order])
