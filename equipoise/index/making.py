"""How an index is made, and the rows it is made of: what folders and databases share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from equipoise.index.closest import Closest
from equipoise.index.index import Record
from equipoise.index.manifest import KINDS
from equipoise.index.points import DTYPES
from equipoise.settings.nearby import nearest
from equipoise.spaces import Space
from equipoise.types import UserError

COUNTED = 10  # rows that recall looks at


class Rows(NamedTuple):
    """Rows to add."""

    points: Tensor  # [n, d]
    records: Sequence[Record]
    thumbs: Sequence[bytes | None]


@dataclass(frozen=True)
class Making:
    """How a new index is made."""

    kind: str = "exact"
    dtype: str = "float32"
    recall: float = 0.95  # the share of the ten closest to be found: candidates are looked for as far as that takes

    def __post_init__(self) -> None:
        for word, known in ((self.kind, KINDS), (self.dtype, DTYPES)):
            if word not in known:
                near = nearest(word, known)
                hint = f"did you mean {near}?" if near else f"choose one of {', '.join(known)}"
                raise UserError(f'there is no {"kind" if known is KINDS else "dtype"} "{word}" of an index; {hint}')
        if not 0 < self.recall <= 1:
            raise UserError(f"recall is {self.recall:g}; it is a share, above 0 and at most 1")

    @property
    def is_lossless(self) -> bool:
        """Whether it finds all that is closest, so that there is nothing to measure."""
        return self.kind == "exact" and self.dtype == "float32"


def compared(rows: Iterable[Rows], truth: Closest | None) -> Iterator[Rows]:
    """The rows of a new index as they come, compared with queries before anything is rounded."""
    first = 0
    for part in rows:
        if truth is not None:
            truth.add(torch.arange(first, first + len(part.points)), part.points.float())
        first += len(part.points)
        yield part


def noting(rows: Iterable[Rows], keys: set[str]) -> Iterator[Rows]:
    """The rows as they come, their keys added to `keys`."""
    for part in rows:
        keys.update(record.key for record in part.records)
        yield part


def require_width(points: Tensor, space: Space) -> None:
    if points.ndim != 2 or points.shape[1] != space.dim:
        raise UserError(f"points of the shape {list(points.shape)} do not fit a space of {space.dim} numbers")
