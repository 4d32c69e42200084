"""Regions and tags of records, found once by a detector and read by the records' keys: what `equipoise regions` writes.

    00000.safetensors    features [T, w], boxes [T, 4], scores [T]: the regions of all records, one after the other;
                         ends [n]: where those of each record end
    00000.json           keys [n] and tags [n], a list of names each

The last 4 of the w features are the box: x0, y0, x1, y1 from 0 to 1. A record may have no regions, or no tags; one that
is in no file has neither.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor

from equipoise.data.features.arrays import Arrays, read_arrays
from equipoise.ops.finite import first_not_finite
from equipoise.types import UserError

TENSORS, WORDS = ("features", "boxes", "scores", "ends"), ("keys", "tags")
BOX = 4  # numbers, the last ones of a region's features


class RegionFolder(Protocol):
    """Regions and tags of records, by their keys."""

    @property
    def home(self) -> str:
        """Where they are, for a person."""
        ...

    most: int  # regions of an image
    width: int  # numbers of a region

    def regions(self, keys: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Features [N, R, w] and which are real [N, R]; R is the same for all keys."""
        ...

    def tags(self, key: str) -> tuple[str, ...]: ...

    def count(self, key: str) -> int: ...


def padded(each: Sequence[Tensor], most: int, width: int) -> tuple[Tensor, Tensor]:
    """Features [R_i, w] of images -> [N, R, w] and which are real [N, R], R at least 1."""
    features = torch.zeros(len(each), max(1, most), width)
    mask = torch.zeros(features.shape[:2], dtype=torch.bool)
    for place, own in enumerate(each):
        features[place, : len(own)], mask[place, : len(own)] = own, True
    return features, mask


class RegionFiles:
    """A folder of regions. Files are mapped into memory, in each process anew."""

    def __init__(self, folder: Path):
        self.folder, self.home = folder, str(folder)
        self._paths = sorted(folder.glob("*.safetensors"))
        if not self._paths:
            raise UserError(f"{folder}: there are no regions in it; write them with `equipoise regions`")
        self._parts: list[Arrays] | None = None
        self._rows: dict[str, tuple[int, int]] = {}
        self.most, self.width = 0, 0  # regions of an image, and numbers of a region
        for number, part in enumerate(self._open()):
            _require_finite(part)
            for row, key in enumerate(part.words["keys"]):
                if key in self._rows:
                    raise UserError(f"{part.path}: the key {key} was in {self.path_of(key)} already; write them again")
                self._rows[key] = (number, row)
            counts = torch.diff(part.tensors["ends"], prepend=torch.zeros(1, dtype=torch.long))
            self.most = max(self.most, int(counts.max()) if len(counts) else 0)

    def __getstate__(self) -> dict[str, object]:  # to processes that load data: they map the files themselves
        return {**vars(self), "_parts": None}

    def __contains__(self, key: str) -> bool:
        return key in self._rows

    def keys(self) -> list[str]:
        """Of all records, in the order in which they were looked at."""
        return list(self._rows)

    def path_of(self, key: str) -> Path:
        return self._paths[self._rows[key][0]]

    def of(self, key: str) -> tuple[Tensor, Tensor]:
        """Features [R, w] and scores [R] of a record."""
        if key not in self._rows:
            return torch.zeros(0, self.width), torch.zeros(0)
        number, row = self._rows[key]
        tensors = self._open()[number].tensors
        start, end = int(tensors["ends"][row - 1]) if row else 0, int(tensors["ends"][row])
        return tensors["features"][start:end].float(), tensors["scores"][start:end]

    def regions(self, keys: Sequence[str]) -> tuple[Tensor, Tensor]:
        return padded([self.of(key)[0] for key in keys], self.most, self.width)

    def tags(self, key: str) -> tuple[str, ...]:
        if key not in self._rows:
            return ()
        number, row = self._rows[key]
        return tuple(self._open()[number].words["tags"][row])

    def count(self, key: str) -> int:
        return len(self.of(key)[0])

    def _open(self) -> list[Arrays]:
        if self._parts is None:
            self._parts = [_checked(read_arrays(path, (*TENSORS, *WORDS))) for path in self._paths]
            parts = [part for part in self._parts if len(part.tensors["features"])] or self._parts
            widths = {int(part.tensors["features"].shape[1]) for part in parts}
            if len(widths) > 1:
                raise UserError(f"{self.folder}: regions are {_listed(widths)} numbers wide; all must be of one width")
            self.width = widths.pop()
        return self._parts


def require_regions(found: RegionFolder, key_of: Callable[[int], str], records: int) -> None:
    """Warns how many records lack regions or tags; raises UserError if all of them do."""
    without_regions = sum(not found.count(key_of(record)) for record in range(records))
    without_tags = sum(not found.tags(key_of(record)) for record in range(records))
    if without_regions == without_tags == records:
        raise UserError(f"{found.home} has no regions of this data (of {key_of(0)}, for instance); give its own folder")
    for what, count in (("regions", without_regions), ("tags", without_tags)):
        if count:
            message = f"{count:,} of {records:,} records have no {what} in {found.home}"
            warnings.warn(f"{message}; where {what} guide a target, their rows stay one-hot", stacklevel=4)


def same_width(found: Sequence[RegionFolder]) -> None:
    """Raises UserError for regions of unlike widths, which cannot be put in one batch."""
    if len(widths := {part.width for part in found if part.most}) > 1:
        folders = " and ".join(part.home for part in found)
        raise UserError(f"the regions of {folders} are {_listed(widths)} numbers wide; all must be of one width")


def _require_finite(part: Arrays) -> None:
    """Reads the whole file, so once, when the folder is opened, and not in every process that loads data."""
    if name := first_not_finite({name: part.tensors[name].float() for name in ("features", "boxes", "scores")}):
        raise UserError(f"{part.path}: some {name} are not finite (NaN or infinite); write the regions again")


def _checked(part: Arrays) -> Arrays:
    for name in (*TENSORS, *WORDS):
        if name not in part.names():
            raise UserError(f"{part.path}: there is no {name!r} in this file or its .json; write it again")
    features, boxes, scores, ends = (part.tensors[name] for name in TENSORS)
    keys, tags = (part.words[name] for name in WORDS)
    if features.is_complex() or ends.dtype != torch.int64:
        raise UserError(f"{part.path}: features must be real numbers and ends whole ones (int64); write it again")
    if not all(isinstance(key, str) for key in keys) or not all(map(_is_list_of_names, tags)):
        raise UserError(f"{part.path}: keys must be names, and tags a list of names each; write its .json again")
    if ends.ndim != 1 or not _fit_together(features, boxes, scores, ends) or not len(keys) == len(tags) == len(ends):
        raise UserError(f"{part.path}: keys, tags, ends and features of this file do not fit together; write it again")
    return part


def _is_list_of_names(tags: object) -> bool:
    return isinstance(tags, list) and all(isinstance(tag, str) for tag in tags)


def _fit_together(features: Tensor, boxes: Tensor, scores: Tensor, ends: Tensor) -> bool:
    total = int(ends[-1]) if len(ends) else 0
    rising = bool((torch.diff(ends) >= 0).all()) and int(ends[:1].sum()) >= 0
    return (
        features.ndim == 2 and features.shape[1] > BOX and boxes.shape == (len(features), BOX)
        and scores.shape == features.shape[:1] and total == len(features) and rising
    )  # fmt: skip


def _listed(widths: set[int]) -> str:
    return " and ".join(map(str, sorted(widths)))
