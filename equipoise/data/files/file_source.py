"""What all sources that read files have in common in a recipe: which files make which split.

train, validation, test     patterns of files, each one or a list, relative to `root`
validation_share            held out of `train` where `validation` is not given
max_bad                     the share of records that may be unusable
regions                     a folder that `equipoise regions` wrote, relative to `root`; "inside": beside the pictures
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from equipoise.data.bad_records import ADVICE, BadRecordCount, EpochCount, Fault
from equipoise.data.files.image_source import Pictures, decodable
from equipoise.data.files.paths import Patterns, as_tuple
from equipoise.data.files.records import Records, Subset, held_out
from equipoise.data.files.regions import RegionFiles, require_regions
from equipoise.data.files.regions_in_shards import INSIDE, RegionsInside
from equipoise.data.record_numbers import Selection
from equipoise.data.splits import require_split
from equipoise.data.urls import URL, fetch_arrays
from equipoise.types import UserError

GLANCE = 64  # pictures that are tried before a run
FEW = 5  # records held out, among which R@5 is 100% whatever a model does
OWN = "own"  # in place of "kept" or "held out": the records say themselves that they are of the split


@dataclass(frozen=True)
class FileSettings(ABC):
    train: Patterns = ""  # files, each a pattern such as train-{000..099}.tar
    validation: Patterns = ""  # files; empty: a share of train
    test: Patterns = ""  # files; empty: those of validation
    root: str = ""  # the folder that these start at
    validation_share: float = 0.05  # of the training records, where there are no files for validation
    max_bad: float = 0.01  # share of records that may be unusable
    regions: str = ""  # a folder of regions and tags, or "inside"

    def __post_init__(self) -> None:
        if not 0 < self.validation_share < 1:
            raise UserError(f"validation_share is {self.validation_share}; give a share between 0 and 1")
        if not 0 <= self.max_bad <= 1:
            raise UserError(f"max_bad is {self.max_bad}; give a share from 0 to 1")

    @abstractmethod
    def records(self, patterns: tuple[str, ...]) -> Records:
        """All records of the files."""

    def source(self, records: Records, patterns: tuple[str, ...]) -> Pictures:
        return Pictures(records, self.max_bad)

    def build(self, split: str) -> Pictures:
        """One split: its own files, or the part of the training files that is held out for it."""
        require_split(split)
        patterns, part = self.files_of(split)
        if not patterns:
            raise UserError(f"data.{split if split == 'test' else 'train'} names no files; say where the data is")
        records = self.records(patterns)
        total = len(records) + len(records.faults)
        records, part = self.part_of(records, split, part)
        if part in ("kept", "held out"):
            away = held_out(records, self.validation_share)
            records = Subset(records, Selection(away if part == "held out" else ~away))
        if split == "train":
            self._glance(records)
        else:
            records = decodable(records)
        inside = RegionsInside(records) if self.regions == INSIDE else None
        if inside:
            records = inside.records
        self._require_sound(total, records.faults, patterns)
        if not len(records):
            why = f": {records.faults[0]}" if records.faults else ""
            raise UserError(f"data.{split}: no usable record was found in {', '.join(patterns)}{why}; check the files")
        self._tell(split, part, len(records))
        source = self.source(records, patterns)
        if self.regions:
            source.region_folder = inside or RegionFiles(self._region_folder())
            if split == "train":
                require_regions(source.region_folder, records.key, len(records))
        return source

    def _region_folder(self) -> Path:
        if not URL.match(self.regions):
            return Path(self.root) / self.regions
        if not hasattr(self, "cache"):
            raise UserError(f"data.regions is {self.regions}, which is read by shards alone; copy it to a disk first")
        return fetch_arrays(self.regions, self.cache, (".safetensors",))[0].parent

    def files_of(self, split: str) -> tuple[tuple[str, ...], str]:
        """The patterns of a split, and whether all their records are meant, those held out, or those kept."""
        own, train, validation = (as_tuple(getattr(self, name)) for name in (split, "train", "validation"))
        if split == "train":
            return train, "" if validation else "kept"
        if own or (split == "test" and validation):
            return own or validation, ""
        return train, "held out"

    def part_of(self, records: Records, split: str, part: str) -> tuple[Records, str]:
        """The records of files that are of a split, where files know it themselves; else all of them."""
        return records, part

    def _require_sound(self, total: int, faults: Sequence[Fault], patterns: tuple[str, ...]) -> None:
        BadRecordCount(self.max_bad, total).add(total, faults)
        if faults:
            named = f"{len(faults):,} of the {total:,} records of {', '.join(patterns)} are left out"
            warnings.warn(f"{named}, the first for this: {faults[0]}; {ADVICE}", stacklevel=3)

    def _glance(self, records: Records) -> None:
        """Try some pictures from all over the data, so that a run on pictures most of which are missing ends before it
        begins; raises UserError for no fewer than a run would."""
        chosen = np.unique(np.linspace(0, len(records) - 1, min(GLANCE, len(records))).astype(np.int64))
        faults = decodable(Subset(records, chosen, [])).faults
        EpochCount(self.max_bad, len(records), 1).add(len(chosen), faults)

    def _tell(self, split: str, part: str, count: int) -> None:
        if part == "held out" and split == "validation" and count <= FEW:
            said = f"only {count} of the records {'are' if count > 1 else 'is'} held out for validation"
            warnings.warn(
                f"{said}, where R@{FEW} is 100% whatever a model does; name more (data.validation)", stacklevel=3
            )
        if part == "kept":
            share = f"{self.validation_share:.0%} of the training records, chosen by their keys,"
            warnings.warn(f"data.validation is not given: {share} are held out for it", stacklevel=3)
        if split == "test" and part != OWN and not as_tuple(self.test):
            warnings.warn(f"data.test is not given: the {count:,} validation records serve as the test", stacklevel=3)
