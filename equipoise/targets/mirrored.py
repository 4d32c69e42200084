"""Two matches per row: the column at its place, and the one at its place in the batch read backwards.

Oh et al. 2023, "Geodesic Multi-Modal Mixup for Robust Fine-Tuning", App. B, Algorithm 1: λ·I + (1-λ)·I_R.

    target[i, j] = own·[i = j] + other·[i + j = N - 1]         in both directions

A sample that was mixed with its mirror image belongs to both, in the shares of the mix. own and other need not sum to
1: a row of mass 2 is the sum of two cross-entropies (the released VL-Mix). In the middle of an odd batch both meet.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from equipoise.targets.target import Scores, Target, TargetBlock
from equipoise.types import UserError


@dataclass(frozen=True)
class Mirrored(Target):
    cites: ClassVar[tuple[str, ...]] = ("oh2023geodesic",)
    divisible: ClassVar[bool] = True

    own: float
    other: float
    samples: int = 0  # N, once it is known

    def sized(self, n_rows: int, n_cols: int) -> Target:
        if n_rows != n_cols:
            raise UserError(f"a batch read backwards needs as many columns as rows, not {n_cols} and {n_rows}")
        return replace(self, samples=n_rows)

    def block(self, rows: range, cols: range, like: Tensor, scores: Scores | None = None) -> TargetBlock:
        mirrored = range(self.samples - rows.stop, self.samples - rows.start)
        if not any(part.start < cols.stop and cols.start < part.stop for part in (rows, mirrored)):
            return TargetBlock(None, None)
        row, col = (torch.arange(part.start, part.stop, device=like.device) for part in (rows, cols))
        own, other = (places[:, None] == col for places in (row, self.samples - 1 - row))
        shares = self.own * own.to(like.dtype) + self.other * other.to(like.dtype)
        return TargetBlock(shares, shares)
