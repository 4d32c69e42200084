"""Rows and columns match where they are of one class; a row may be a mix of two.

Oh et al. 2023, "Geodesic Multi-Modal Mixup for Robust Fine-Tuning", App. A.2: "there are many positive images
corresponding to a text embedding (for each class)".

    by_row[i, j] = λ [c_j = a_i] / n(a_i) + (1-λ) [c_j = b_i] / n(b_i)         n(c) columns of class c
    by_col[i, j] = (λ [c_j = a_i] + (1-λ) [c_j = b_i]) / Σ_k (the same of row k)

a, b [N] the classes of a row, c [M] those of columns, whole numbers from 0; λ the share of a. The paper does not say
how several matches share a row. Here they share it evenly and rows sum to 1, as in `duplicates.py`, so that a large
class weighs no more than a small one. A column without matches has no share: leave it out where a mean over columns
is to be one over those that count.
"""

from __future__ import annotations

import torch
from torch import Tensor

from equipoise.targets.target import Scores, Target, TargetBlock
from equipoise.types import UserError


class ClassMatches(Target):
    """Rows of classes `rows` [N], columns of classes `cols` [M]; with `other` [N] rows have two, the first at `lam`."""

    def __init__(self, rows: Tensor, cols: Tensor, other: Tensor | None = None, lam: float = 1.0):
        self.cols = cols
        self.parts = ((rows, lam),) if other is None else ((rows, lam), (other, 1 - lam))
        classes = 1 + max(int(numbers.max()) for numbers in (cols, *(numbers for numbers, _ in self.parts)))
        self.in_columns = torch.bincount(cols, minlength=classes).double()  # [classes]
        counts = [share * torch.bincount(own, minlength=classes).double() for own, share in self.parts]
        self.in_rows = torch.stack(counts).sum(0)  # the mass that the columns of each class share

    def sized(self, n_rows: int, n_cols: int) -> ClassMatches:
        known = len(self.parts[0][0]), len(self.cols)
        if known != (n_rows, n_cols):
            raise UserError(
                f"the target knows the classes of {known[0]} rows and {known[1]} columns, not of {n_rows} and {n_cols}"
            )
        return self

    def block(self, rows: range, cols: range, like: Tensor, scores: Scores | None = None) -> TargetBlock:
        columns = self.cols[cols.start : cols.stop]
        by_row, by_col = torch.zeros_like(like), torch.zeros_like(like)
        for classes, share in self.parts:
            own = classes[rows.start : rows.stop]
            matches = (own[:, None] == columns).to(like.dtype) * share
            by_row += matches / self.in_columns[own].clamp(min=1).to(like)[:, None]
            by_col += matches
        mass = self.in_rows[columns].to(like)
        return TargetBlock(by_row, by_col / torch.where(mass > 0, mass, 1))
