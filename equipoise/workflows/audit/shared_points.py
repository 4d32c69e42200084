"""The points by which a model that is given judges all pairs, computed by several processes or machines.

    images/00000.safetensors    points [n, d]; of pictures also digests, hashes and thumbnails, by which copies are
                                found, and numbers, the records that these are of
    images/00000.json           faults: number, place and reason of pictures that cannot be read
    texts/00000.safetensors     points [m, d]

Batches are those of one process, so that the points are the same to the bit.
"""

from __future__ import annotations

import hashlib
import shutil
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from equipoise.analysis.noise import Pairs
from equipoise.config import Run
from equipoise.data.bad_records import BadRecordCount, Fault
from equipoise.data.copies.signature import Signatures
from equipoise.data.copies.watch import WatchedSource
from equipoise.data.digest import source_digest
from equipoise.data.part_writer import PartWriter
from equipoise.data.source import Source, has_features, inner_source
from equipoise.data.unreadable_pictures import BlankPictures
from equipoise.evaluation.encoding import TEXTS_AT_ONCE, captions, encode_image_subset
from equipoise.io.folder_lock import only_writer
from equipoise.io.json_files import read_json_table
from equipoise.io.resumable import NumberedFiles, write_arrays
from equipoise.models.folder import WEIGHTS, model_folder, read_tensors
from equipoise.models.model import Model
from equipoise.types import UserError
from equipoise.workflows.audit.folds import training_pairs
from equipoise.workflows.audit.judge import BATCH
from equipoise.workflows.embed.encoders import digest_of
from equipoise.workflows.engines import Engine, write_parts
from equipoise.workflows.load import load
from equipoise.workflows.subject import find_run

BATCHES = 8  # a file
IMAGES, TEXTS = "images", "texts"


@dataclass(frozen=True)
class Judged:
    """The pairs and the model, by the words of the command, which every process reads anew."""

    data: str
    recipe: str
    overrides: tuple[str, ...]
    model: Path

    def run(self) -> Run:
        return find_run(self.data, self.recipe, self.overrides, trains=False).run


@dataclass(frozen=True)
class PointsJob:
    judged: Judged
    folder: Path
    of: str  # IMAGES or TEXTS

    def __call__(self) -> PartWriter:
        source = training_pairs(self.judged.run())
        return self.writer(load(self.judged.model, "auto"), source)

    def writer(self, model: Model, source: Source) -> PartWriter:
        bad = BadRecordCount(1.0, len(source))  # they are counted where all of them are known
        if self.of == TEXTS:
            texts = captions(source, 0)

            def fill_texts(path: Path, batches: Iterator[range]) -> None:
                write_arrays(path, {"points": torch.cat([texts.encode(model, batch).cpu() for batch in batches])}, {})

            files = NumberedFiles(self.folder / TEXTS, len(texts.image_of_text), BATCHES * TEXTS_AT_ONCE)
            return PartWriter(files, fill_texts, TEXTS_AT_ONCE, bad)
        files = NumberedFiles(self.folder / IMAGES, len(source), BATCHES * BATCH)
        return PartWriter(files, lambda path, batches: _write_images(model, source, path, batches), BATCH, bad)


def _write_images(model: Model, source: Source, path: Path, batches: Iterator[range]) -> None:
    watched = None if has_features(source) else WatchedSource(source)
    known = _faults(source).copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is warned where all faults are known
        points = torch.cat([encode_image_subset(model, watched or source, batch, BATCH).cpu() for batch in batches])
    new = [(number, fault) for number, fault in _faults(source).items() if number not in known]
    faults = [[number, fault.place, fault.reason] for number, fault in new]
    write_arrays(path, {"points": points, **(_packed(watched) if watched else {})}, {"faults": faults})


def _faults(source: Source) -> dict[int, Fault]:
    return source.faults_met if isinstance(source, BlankPictures) else {}


def _packed(watched: WatchedSource) -> dict[str, Tensor]:
    numbers, signatures = watched.seen()
    if signatures is None:
        return {}
    return {
        "numbers": torch.tensor(numbers, dtype=torch.long),
        "digests": torch.from_numpy(np.ascontiguousarray(signatures.digests).view(np.uint8).reshape(-1, 16).copy()),
        "hashes": torch.from_numpy(signatures.hashes.view(np.int64).copy()),
        "thumbnails": signatures.thumbnails.contiguous(),
    }


def _unpacked(tensors: dict[str, Tensor]) -> Signatures:
    digests = np.ascontiguousarray(tensors["digests"].numpy()).view("V16").reshape(-1)
    return Signatures(digests, tensors["hashes"].numpy().view(np.uint64), tensors["thumbnails"])


@dataclass
class SharedPoints:
    """In place of `points_of`, for all pairs and one model; computed once."""

    judged: Judged
    engine: Engine
    out: Path  # of the audit
    _found: Pairs | None = None

    def __call__(self, model: Model, source: Source) -> Pairs:
        if self._found is None:
            self._found = self._computed(model, source)
        if len(self._found.images) != len(source):
            raise UserError("--engine shares the scoring of all pairs by a model that is given; leave it out here")
        return self._found

    def _computed(self, model: Model, source: Source) -> Pairs:
        weights = digest_of(model_folder(self.judged.model) / WEIGHTS)
        words = f"{self.judged} {weights} {len(source)} {source_digest(source)}"
        place = self.out / f".scoring-{hashlib.sha256(words.encode()).hexdigest()[:12]}"
        plain = training_pairs(self.judged.run())
        found: dict[str, list[Tensor]] = {}
        for of in (IMAGES, TEXTS):
            job = PointsJob(self.judged, place, of)
            with only_writer(place / of):
                writer = job.writer(model, plain)
                write_parts(self.engine, writer, job, f"scoring {of}")
                found[of] = [self._read(path, source) for path in writer.files.paths()]
        shutil.rmtree(place, ignore_errors=True)
        none = torch.empty(0, model.space.dim)
        images, texts = (torch.cat(found[of]) if found[of] else none for of in (IMAGES, TEXTS))
        return Pairs(images, texts, captions(source, 0).image_of_text)

    def _read(self, path: Path, source: Any) -> Tensor:
        """The points in a file; the source is told of the pictures what it would have seen itself."""
        tensors = read_tensors(path)
        words = read_json_table(path.with_suffix(".json"), "remove this folder")
        watched = inner_source(source, WatchedSource)
        blank = inner_source(source, BlankPictures)
        for number, place, reason in words.get("faults", ()):
            if blank is not None:
                blank.note(number, Fault(place, reason))
        if watched is not None and "numbers" in tensors:
            watched.add(tensors["numbers"].tolist(), _unpacked(tensors))
        return tensors["points"]
