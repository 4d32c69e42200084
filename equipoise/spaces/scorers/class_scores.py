"""A space in which a row has two points: one for the columns of its classes, one for all others.

    s(i, j) = s_of(a_i, v_j)              where the class of j is one of i's
            = s_of(b_i, v_j)              elsewhere

Mixups of images with the prompts of their classes exchange the similarities of all that belongs together, which may be
many of a row: `pinned.py`, which carries values, does for a few. Rows carry both points and their classes, columns
their class, as further numbers behind the point [d]; so any block knows who belongs together, whoever visits the
blocks. Numbers are floats here: exact below 2^24.

    rows [N, 2d + k] = point a, point b, k classes          cols [M, 2d + k] = point, class, zeros
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional as F

from equipoise.spaces.space import Space


@dataclass(frozen=True)
class ByClass(Space):
    of: Space
    classes: int  # of a row
    dim: int = field(default=None, kw_only=True)  # type: ignore[assignment]  # of two points, and one a class

    def __post_init__(self) -> None:
        object.__setattr__(self, "dim", 2 * self.of.dim + self.classes)

    def project(self, vectors: Tensor) -> Tensor:
        own, other, told = vectors.split((self.of.dim, self.of.dim, self.classes), dim=-1)
        return torch.cat([self.of.project(own), self.of.project(other), told], dim=-1)

    def similarity(self, rows: Tensor, cols: Tensor) -> Tensor:
        own, other, classes = rows.split((self.of.dim, self.of.dim, self.classes), dim=1)
        points, number = cols[:, : self.of.dim], cols.detach()[:, self.of.dim]
        together = torch.stack([some[:, None] == number for some in classes.detach().T]).any(dim=0)
        return torch.where(together, self.of.similarity(own, points), self.of.similarity(other, points))

    @property
    def range(self) -> tuple[float, float]:
        return self.of.range


def by_class(
    own: Tensor, other: Tensor, classes: Tensor, cols: Tensor, col_classes: Tensor, *, space: Space
) -> tuple[Tensor, Tensor, ByClass]:
    """Rows with points `own` and `other` [N, d] and classes [N, k], columns [M, d] with one class each [M], and the
    space in which they are compared."""
    exact = torch.promote_types(own.dtype, torch.float32)
    there = ByClass(space, classes.shape[1])
    rows = torch.cat([own.to(exact), other.to(exact), classes.to(exact)], dim=1)
    told = torch.cat([cols.to(exact), col_classes.to(exact)[:, None]], dim=1)
    return rows, F.pad(told, (0, there.dim - told.shape[1])), there
