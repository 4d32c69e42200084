"""What every index offers: points to search among, and what is known of each.

    index = open_index("indexes/photos")
    found = index.search(model.encode_text(["a red fish"]), k=10, where='year >= 2020 and kind = "photo"')
    for score, record in zip(found.scores[0], index.records(found.rows[0])):
        print(float(score), record.key, record.caption)

A row is a number that stays with its point for as long as the point is in the index. Q queries, d numbers a point.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath, PureWindowsPath
from typing import Any

import numpy as np
import torch
from torch import Tensor

from equipoise.spaces import Space
from equipoise.types import UserError

MOST_FOUND = 10_000  # rows of one answer
NOTHING = -1  # stands where an answer has fewer than k rows
IMAGE, TEXT = "image", "text"


class Unreachable(UserError):
    """Raised where the database of an index does not answer."""


@dataclass(frozen=True)
class ModelNote:
    """The model whose points an index holds."""

    name: str  # the folder's, as it was given
    fingerprint: str  # of its files (`models/fingerprint.py`)


@dataclass(frozen=True)
class Record:
    """What is known of a row beyond its point."""

    key: str
    captions: tuple[str, ...] = ()  # of a text, that one
    picture: str | None = None  # the picture's path in the data, never an absolute one
    side: Mapping[str, Any] = field(default_factory=dict)  # label, tags and what else the data said
    of: str = IMAGE  # or TEXT; of named modalities the name, or that of all together

    @property
    def name(self) -> str:
        """The key as it may be shown to anybody: of a path of the machine that made the index, the file's name."""
        return PurePath(self.key).name if _is_of_machine(self.key) else self.key

    @property
    def caption(self) -> str:
        return self.captions[0] if self.captions else ""


@dataclass(frozen=True)
class Found:
    """The closest rows of each query, the closest first."""

    scores: Tensor  # [Q, k] float32, the space's similarity: larger is closer; -inf where there is none
    rows: Tensor  # [Q, k] int64; -1 where there are fewer than k


class Index(ABC):
    """Points of one model in one space."""

    space: Space
    model: ModelNote
    kind: str  # one of KINDS
    effort: int = 0  # how far candidates are looked for

    @property
    def efforts(self) -> tuple[int, ...]:
        """The efforts that make sense, the least first."""
        return (0,)

    @abstractmethod
    def __len__(self) -> int:
        """Rows that can be found."""

    @property
    @abstractmethod
    def modality(self) -> Mapping[str, int]:
        """Rows by what they are points of: images, texts, or named modalities."""

    @property
    @abstractmethod
    def fields(self) -> Mapping[str, tuple[str, ...]]:
        """What a filter may name, each with the kinds of its values: number, text, bool."""

    def search(self, points: Tensor, k: int, where: str | None = None) -> Found:
        """The k rows closest to each of the points [Q, d], among those that the filter `where` lets through
        (`filters/parse.py`)."""
        return self._search(self._checked(points), _checked_count(k), (where or "").strip())

    @abstractmethod
    def _search(self, points: Tensor, k: int, where: str) -> Found: ...

    @abstractmethod
    def records(self, rows: Tensor | Sequence[int]) -> list[Record]:
        """What is known of these rows; raises UserError for one that is not there."""

    @abstractmethod
    def rows_of_keys(self, keys: set[str]) -> np.ndarray:
        """The rows of the records with these keys, ascending."""

    @abstractmethod
    def points(self, rows: Tensor | Sequence[int]) -> Tensor:
        """The points of these rows [n, d], float32, as the index stores them."""

    @abstractmethod
    def thumbnail(self, row: int) -> bytes | None:
        """A small JPEG of a row's picture, where the index has one."""

    def close(self) -> None:  # noqa: B027 (an index of files has nothing to close)
        """Let go of connections."""

    def _checked(self, points: Tensor) -> Tensor:
        if points.ndim != 2 or points.shape[1] != self.space.dim:
            raise UserError(
                f"the points to search for have the shape {list(points.shape)}, but this index holds points of "
                f"{self.space.dim} numbers; encode them with the model of the index, {self.model.name}"
            )
        points = points.detach().to("cpu", torch.float32)
        if not points.isfinite().all():
            raise UserError("the points to search for hold numbers that are not finite; encode them again")
        return points


def _is_of_machine(path: str) -> bool:
    return path.startswith(("/", "~", "\\")) or ".." in PurePath(path).parts or PureWindowsPath(path).drive != ""


def picture_path(key: str, is_picture: bool) -> str | None:
    """A key as the path of a picture in the data, where it is one."""
    return key if is_picture and not _is_of_machine(key) else None


def require_same_model(index: Index, fingerprint: str, name: str) -> None:
    """Raise UserError unless the index was made with the model of this fingerprint."""
    if index.model.fingerprint != fingerprint:
        raise UserError(
            f"the index holds points of another model ({index.model.name}, {index.model.fingerprint}) than {name} "
            f"({fingerprint}); give that model, or make the index again with `equipoise index {name} DATA --out FOLDER`"
        )


def _checked_count(k: int) -> int:
    if not 1 <= k <= MOST_FOUND:
        raise UserError(f"k is {k}; ask for 1 to {MOST_FOUND:,} rows")
    return k


def numbers_of(rows: Tensor | Sequence[int]) -> list[int]:
    """Rows as whole numbers."""
    return [int(row) for row in (rows.tolist() if isinstance(rows, Tensor) else rows)]


def no_row(row: int) -> UserError:
    return UserError(f"there is no row {row} in this index; it may have been deleted")
