"""Similarities of which a few per row are given, and all others computed: mixed batches need that.

    s(i, j) = value of i's override       where j is the column that it names
            = s_of(u_i, v_j)              elsewhere

A mixup exchanges some N of the N × N similarities (the diagonal, say). Engines hand over blocks, and columns of other
processes, without their place in the batch; so a row carries the columns it overrides and the values, and a column its
number, as further numbers behind the point [d]. Gradients flow into the values. Numbers of columns are floats, exact
below 2^24.

    rows [N, d + 2k] = point, k columns, k values           cols [N, d + 2k] = point, number, zeros
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from equipoise.spaces.scorer import ScoredPoints, Scorer

Override = tuple[Tensor, Tensor]  # per row: a column [N], and the similarity with it [N]
EXACT = 1 << 24  # whole numbers that a float32 can tell apart


@dataclass(frozen=True)
class OverriddenScores:
    of: Scorer
    per_row: int  # overrides

    @property
    def dim(self) -> int:
        return self.of.dim + 2 * self.per_row

    def similarity(self, rows: Tensor, cols: Tensor) -> Tensor:
        points, columns, values = rows.split((self.of.dim, self.per_row, self.per_row), dim=1)
        scores = self.of.similarity(points, cols[:, : self.of.dim])
        number = cols.detach()[:, self.of.dim]
        for column, value in zip(columns.detach().T, values.T, strict=True):
            if bool(((column >= number.min()) & (column <= number.max())).any()):  # else none lies in this block
                scores = torch.where(column[:, None] == number, value[:, None], scores)
        return scores


def override_scores(rows: Tensor, cols: Tensor, overrides: Sequence[Override], *, of: Scorer) -> ScoredPoints:
    """Rows [N, d] and columns [M, d] of the scorer `of` with these overrides; the later of two in one place counts."""
    assert len(cols) < EXACT, "numbers of columns must be exact"
    exact = torch.promote_types(rows.dtype, torch.float32)
    columns, values = (torch.stack([one[part].to(rows.device, exact) for one in overrides], dim=1) for part in (0, 1))
    number = torch.arange(len(cols), dtype=exact, device=cols.device)[:, None]
    behind = F.pad(number, (0, 2 * len(overrides) - 1))
    return ScoredPoints(
        torch.cat([rows.to(exact), columns, values], 1),
        torch.cat([cols.to(exact), behind], 1),
        OverriddenScores(of, len(overrides)),
    )
