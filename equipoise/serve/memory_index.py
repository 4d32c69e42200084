"""An index in memory of a run's own pictures, so that a model can be searched with right after it was trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from equipoise.data.remap import subset
from equipoise.data.source import Pair, Source
from equipoise.data.thumbnail import thumbnail_jpeg
from equipoise.evaluation.encoding import encode_images
from equipoise.index.closest import Closest
from equipoise.index.index import IMAGE, Found, Index, ModelNote, Record, no_row, numbers_of
from equipoise.io.progress import Progress
from equipoise.models.model import Model
from equipoise.spaces import Space
from equipoise.types import UserError

MOST = 2000  # pictures; more belong into an index on disk
TILE = 1 << 22  # numbers compared at once
BATCH = 64


@dataclass(frozen=True)
class Pictures:
    """Pictures that can be shown, each with what is known of it; shared by the models beside each other."""

    source: Source  # of these alone
    pairs: tuple[Pair, ...]
    small: tuple[bytes, ...]  # JPEG


class MemoryIndex(Index):
    kind = "memory"

    def __init__(self, points: Tensor, pictures: Pictures, space: Space, model: ModelNote):
        self._points, self._pictures = points.detach().to("cpu", torch.float32), pictures
        self.space, self.model = space, model

    def __len__(self) -> int:
        return len(self._points)

    @property
    def modality(self) -> Mapping[str, int]:
        return {IMAGE: len(self)}

    @property
    def fields(self) -> Mapping[str, tuple[str, ...]]:
        return {}

    def _search(self, points: Tensor, k: int, where: str) -> Found:
        if where:
            raise UserError("pictures of a run's own data have no side data to filter by; make an index of your data")
        closest, step = Closest(self.space, points, k), max(1, TILE // self.space.dim)
        for start in range(0, len(self), step):
            part = self._points[start : start + step]
            closest.add(torch.arange(start, start + len(part)), part)
        return closest.found()

    def records(self, rows: Tensor | Sequence[int]) -> list[Record]:
        pairs = [self._pictures.pairs[row] for row in self._there(rows)]
        return [Record(pair.key, pair.captions) for pair in pairs]

    def rows_of_keys(self, keys: set[str]) -> np.ndarray:
        return np.array([row for row, pair in enumerate(self._pictures.pairs) if pair.key in keys], dtype=np.int64)

    def points(self, rows: Tensor | Sequence[int]) -> Tensor:
        return self._points[self._there(rows)]

    def thumbnail(self, row: int) -> bytes | None:
        return self._pictures.small[self._there([row])[0]]

    def _there(self, rows: Tensor | Sequence[int]) -> list[int]:
        numbers = numbers_of(rows)
        for row in numbers:
            if not 0 <= row < len(self):
                raise no_row(row)
        return numbers


def read_pictures(source: Source, most: int = MOST) -> Pictures:
    """The first pictures of a source; raises UserError where there are none to look at."""
    numbers, small = list[int](), list[bytes]()
    total = min(most, len(source))
    with Progress(total, "pictures", lines=False) as progress:
        for index in range(total):
            if picture := jpeg(source, index):
                numbers.append(index)
                small.append(picture)
            progress.update(index + 1)
    if not numbers:
        raise UserError("this data has no pictures to look at (features cannot be shown); give --index FOLDER")
    pairs = tuple(source.pair(index) for index in numbers)
    return Pictures(source if len(numbers) == len(source) else subset(source, numbers), pairs, tuple(small))


def memory_index(model: Model, note: ModelNote, pictures: Pictures) -> MemoryIndex:
    """Encode the pictures by a model."""
    return MemoryIndex(encode_images(model, pictures.source, BATCH), pictures, model.space, note)


def jpeg(source: Source, index: int) -> bytes | None:
    """A small picture of a record; None where it has none, or it cannot be read."""
    return thumbnail_jpeg(source, index) or None
