"""The job of computing a judge's points of some records of the data, as files that any process can write.

    images/00000.safetensors    points [n, d]; where pictures are watched also digests, hashes and thumbnails, by which
                                copies are found, and numbers, the records that these are of
    images/00000.json           faults: number, place and reason of pictures that cannot be read
    texts/00000.safetensors     points [m, d] of texts that differ, in the order in which they first occur

Batches are those of one process, so that the points are the same to the bit.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from equipoise.data.bad_records import BadRecordCount
from equipoise.data.copies.signature import Signatures
from equipoise.data.copies.watch import WatchedSource
from equipoise.data.part_writer import PartWriter
from equipoise.data.remap import subset
from equipoise.data.source import Source, has_features
from equipoise.data.unreadable_pictures import BlankPictures
from equipoise.evaluation.encoding import TEXTS_AT_ONCE, captions, encode_image_subset
from equipoise.io.resumable import NumberedFiles, write_arrays
from equipoise.models.model import Model
from equipoise.workflows.audit.folds import training_pairs
from equipoise.workflows.audit.points import BATCH
from equipoise.workflows.engines import Engine, write_parts
from equipoise.workflows.load import load
from equipoise.workflows.subject import find_run

BATCHES = 8  # a file
IMAGES, TEXTS = "images", "texts"


@dataclass(frozen=True)
class JudgedData:
    """The pairs, by the words of the command, which every process reads anew."""

    data: str
    recipe: str
    overrides: tuple[str, ...]

    def build(self) -> Source:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the command was given them when it read its settings
            return training_pairs(find_run(self.data, self.recipe, self.overrides, trains=False).run)


@dataclass(frozen=True)
class PointsJob:
    data: JudgedData
    model: Path
    part: Sequence[int]  # numbers of records
    folder: Path
    of: str  # IMAGES or TEXTS
    watch: bool  # whether to note what pictures look like

    def __call__(self) -> PartWriter:
        return self.writer(load(self.model, "auto"), self.data.build())

    def write(self, engine: Engine, model: Model, source: Source) -> list[Path]:
        """Have the files that are not there yet written; `source` is what every process reads, opened here."""
        writer = self.writer(model, source)
        write_parts(engine, writer, self, f"scoring {self.of}")
        return writer.files.paths()

    def writer(self, model: Model, source: Source) -> PartWriter:
        return self._of_texts(model, source) if self.of == TEXTS else self._of_images(model, source)

    def _of_texts(self, model: Model, source: Source) -> PartWriter:
        texts, _ = captions(subset(source, self.part), 0).distinct()

        def fill(path: Path, batches: Iterator[range]) -> None:
            write_arrays(path, {"points": torch.cat([texts.encode(model, batch).cpu() for batch in batches])}, {})

        files = NumberedFiles(self.folder / TEXTS, len(texts.image_of_text), BATCHES * TEXTS_AT_ONCE)
        return PartWriter(files, fill, TEXTS_AT_ONCE, _uncounted(source))

    def _of_images(self, model: Model, source: Source) -> PartWriter:
        def fill(path: Path, batches: Iterator[range]) -> None:
            watched = WatchedSource(source) if self.watch and not has_features(source) else None
            some = subset(watched or source, self.part)
            numbers: list[int] = []
            points: list[Tensor] = []
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # it is warned where all faults are known
                for batch in batches:
                    points.append(encode_image_subset(model, some, batch, BATCH).cpu())
                    numbers += [self.part[place] for place in batch]
            looks = packed(watched) if watched else {}
            write_arrays(path, {"points": torch.cat(points), **looks}, {"faults": _faults(source, numbers)})

        files = NumberedFiles(self.folder / IMAGES, len(self.part), BATCHES * BATCH)
        return PartWriter(files, fill, BATCH, _uncounted(source))


def _uncounted(source: Source) -> BadRecordCount:
    """Bad records are counted where all of them are known."""
    return BadRecordCount(1.0, len(source))


def _faults(source: Source, numbers: Sequence[int]) -> list[list[Any]]:
    """What is wrong with the pictures of these records."""
    met = source.faults_met if isinstance(source, BlankPictures) else {}
    return [[number, met[number].place, met[number].reason] for number in numbers if number in met]


def packed(watched: WatchedSource) -> dict[str, Tensor]:
    """What pictures look like, and whose they are, as arrays."""
    numbers, signatures = watched.seen()
    if signatures is None:
        return {}
    return {
        "numbers": torch.tensor(numbers, dtype=torch.long),
        "digests": torch.from_numpy(np.ascontiguousarray(signatures.digests).view(np.uint8).reshape(-1, 16).copy()),
        "hashes": torch.from_numpy(signatures.hashes.view(np.int64).copy()),
        "thumbnails": signatures.thumbnails.contiguous(),
    }


def unpacked(tensors: dict[str, Tensor]) -> Signatures:
    digests = np.ascontiguousarray(tensors["digests"].numpy()).view("V16").reshape(-1)
    return Signatures(digests, tensors["hashes"].numpy().view(np.uint64), tensors["thumbnails"])
