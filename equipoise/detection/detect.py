"""Run a detector over records and write its regions to files that training reads (`equipoise regions`).

Files are those of `data/files/regions.py`, `regions.json` says what made them. An interrupted run resumes and
ends with the same bytes (`io/resumable.py`). A picture that cannot be read has no regions.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from equipoise.data.bad_records import BadRecord, BadRecordCount
from equipoise.data.encoded_image import EncodedImage, encoded
from equipoise.data.files.records import Records
from equipoise.data.files.regions import BOX
from equipoise.data.part_writer import PartWriter
from equipoise.data.source import Pair
from equipoise.detection.detector import DetectedRegions, Detector
from equipoise.detection.features import Describe, region_features
from equipoise.detection.tags import Name
from equipoise.io.results_folder import Place
from equipoise.io.resumable import NumberedFiles, claim, write_arrays
from equipoise.types import UserError

NOTE = "regions.json"


@dataclass(frozen=True)
class Detection:
    most: int = 10  # regions per picture
    least_score: float = 0.0
    per_file: int = 1000  # records
    batch_size: int = 32  # pictures in memory at once

    def __post_init__(self) -> None:
        for name in ("most", "per_file", "batch_size"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} must be at least 1, not {getattr(self, name)}")
        if not isfinite(self.least_score):
            raise UserError(f"least_score is {self.least_score}; give a number")


@dataclass(frozen=True)
class DetectionRequest:
    """The detector, the features of its regions, and their names."""

    detector: Detector
    describe: Describe
    name: Name


def detect(
    records: Records,
    request: DetectionRequest,
    folder: Path,
    note: Mapping[str, Any],
    settings: Detection,
    max_bad: float,
) -> list[Path]:
    """Write the files that do not exist yet; returns the paths of all."""
    claim_folder(records, folder, note, settings)
    writer = part_writer(records, request, folder, settings, max_bad)
    writer.write_missing("looking")
    return writer.files.paths()


def claim_folder(records: Records, folder: Place, note: Mapping[str, Any], settings: Detection) -> None:
    """Raise UserError for records that have no regions to call their own, or a folder that holds others."""
    _require_unique_keys(records)
    kept = {name: value for name, value in vars(settings).items() if name != "batch_size"}  # which changes nothing
    claim(folder, {**note, "records": len(records), **kept}, NOTE)


def part_writer(
    records: Records, request: DetectionRequest, folder: Place, settings: Detection, max_bad: float
) -> PartWriter:
    """What writes any of the files."""
    bad = BadRecordCount(max_bad, len(records))

    def fill(path: Path, batches: Iterator[range]) -> None:
        file = _File()
        for batch in batches:
            _detect_batch(records, batch, request, settings, file, bad)
        file.write(path)

    files = NumberedFiles(folder, len(records), settings.per_file)
    return PartWriter(files, fill, settings.batch_size, bad)


class _File:
    """Content of one file."""

    def __init__(self) -> None:
        self.parts: dict[str, list[Tensor]] = {"features": [], "boxes": [], "scores": []}
        self.words: dict[str, list[Any]] = {"keys": [], "tags": []}
        self.ends: list[int] = []

    def add(self, key: str, tags: Sequence[str], found: DetectedRegions | None, features: Tensor | None) -> None:
        self.words["keys"].append(key)
        self.words["tags"].append(list(tags))
        count = 0 if found is None else len(found.boxes)
        self.ends.append((self.ends[-1] if self.ends else 0) + count)
        if found is not None and features is not None and count:
            half = features.half()
            if not half.isfinite().all():
                raise UserError(f"record {key}: features of its regions do not fit in float16; scale the detector's")
            self.parts["features"].append(half)
            self.parts["boxes"].append(found.boxes)
            self.parts["scores"].append(found.scores)

    def write(self, path: Path) -> None:
        nothing = {"features": torch.zeros(0, BOX + 1).half(), "boxes": torch.zeros(0, BOX), "scores": torch.zeros(0)}
        tensors = {name: torch.cat(parts) if parts else nothing[name] for name, parts in self.parts.items()}
        write_arrays(path, {**tensors, "ends": torch.tensor(self.ends, dtype=torch.long)}, self.words)


def _detect_batch(
    records: Records, batch: range, request: DetectionRequest, settings: Detection, file: _File, bad: BadRecordCount
) -> None:
    pictures: dict[int, Tensor] = {}
    pairs = {index: records.pair(index) for index in batch}
    for index in batch:
        try:
            pictures[index] = resized_pixels(
                encoded(records.image(index), records.place(index)), request.detector.longest
            )
            bad.add(1, ())
        except BadRecord as error:
            warnings.warn(f"no regions for {error.fault}", stacklevel=4)
            bad.add(1, (error.fault,))
    found = request.detector([*pictures.values()], [pairs[index] for index in pictures])
    best = {
        index: regions.best(settings.most, settings.least_score) for index, regions in zip(pictures, found, strict=True)
    }
    for index in batch:
        file.add(pairs[index].key, *_described(pairs[index], pictures.get(index), best.get(index), request))


def _described(
    pair: Pair, image: Tensor | None, found: DetectedRegions | None, request: DetectionRequest
) -> tuple[tuple[str, ...], DetectedRegions | None, Tensor | None]:
    if image is None or found is None:
        return (), None, None
    features = region_features(image, found, request.describe) if len(found.boxes) else None
    return request.name(pair, image, found), found, features


def resized_pixels(picture: EncodedImage, longest: int) -> Tensor:
    """Pixels uint8 [3, H, W] of a picture, resized so that its longer side has at most `longest`."""
    scale = min(1.0, longest / max(picture.height, picture.width))
    sides = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
    image = picture.resized((0, 0, picture.width, picture.height), sides)
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)


def _require_unique_keys(records: Records) -> None:
    """Raise UserError where two records share a key, for regions are found by key."""
    if not len(records):
        raise UserError("there are no usable records to look at; `equipoise data check` says what is wrong with them")
    seen: dict[str, int] = {}
    for index in range(len(records)):
        if (first := seen.setdefault(records.key(index), index)) != index:
            places = f"{records.place(first)} and {records.place(index)}"
            raise UserError(f"{places} have the same key, by which regions are found; rename one of them")
