"""Similarities of rows that have two points: one for the columns of their classes, one for all others.

    s(i, j) = s_of(a_i, v_j)              where the class of j is one of i's
            = s_of(b_i, v_j)              elsewhere

Mixups of images with the prompts of their classes exchange the similarities of all that belongs together, which may be
many per row; `overridden.py`, which carries values, serves for a few. Rows carry both points and their classes, columns
their class, as further numbers behind the point [d], so that any block knows who belongs together. Classes are floats,
exact below 2^24.

    rows [N, 2d + k] = point a, point b, k classes          cols [M, 2d + k] = point, class, zeros
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from equipoise.spaces.scorer import ScoredPoints, Scorer


@dataclass(frozen=True)
class ClassScores:
    of: Scorer
    per_row: int  # classes

    @property
    def dim(self) -> int:
        return 2 * self.of.dim + self.per_row

    def similarity(self, rows: Tensor, cols: Tensor) -> Tensor:
        own, other, classes = rows.split((self.of.dim, self.of.dim, self.per_row), dim=1)
        points, col_class = cols[:, : self.of.dim], cols.detach()[:, self.of.dim]
        matches = torch.stack([row_class[:, None] == col_class for row_class in classes.detach().T]).any(dim=0)
        return torch.where(matches, self.of.similarity(own, points), self.of.similarity(other, points))


def scores_by_class(
    own: Tensor, other: Tensor, classes: Tensor, cols: Tensor, col_classes: Tensor, *, of: Scorer
) -> ScoredPoints:
    """Rows with points `own` and `other` [N, d] and classes [N, k], columns [M, d] with one class each [M]."""
    exact = torch.promote_types(own.dtype, torch.float32)
    scorer = ClassScores(of, classes.shape[1])
    rows = torch.cat([own.to(exact), other.to(exact), classes.to(exact)], dim=1)
    columns = torch.cat([cols.to(exact), col_classes.to(exact)[:, None]], dim=1)
    return ScoredPoints(rows, F.pad(columns, (0, scorer.dim - columns.shape[1])), scorer)
