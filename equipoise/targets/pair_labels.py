"""Matches that are trusted in part: the rows and columns of a hard target, times a label of each pair.

Qin et al. 2023 (CRCL), the refined correspondence y.

    p_ij = y_i h_ij by row        p'_ij = y_j h_ij by column        0 ≤ y ≤ 1

h the hard target, y [N] the label of pair i: of its image, and of the text it came with. Unlike in `weighted.py` labels
are not divided by their mean: the form `active_complementary` reads them. What matches stays known where y is 0.
"""

from __future__ import annotations

from torch import Tensor

from equipoise.targets.target import Gather, HardTarget, Scores, Target, TargetBlock
from equipoise.types import UserError


class PairLabels(Target):
    """A hard target whose matches count by the labels [N] of their pairs."""

    def __init__(self, target: HardTarget, labels: Tensor):
        self.target, self.labels = target, labels

    @property
    def divisible(self) -> bool:  # type: ignore[override]
        return self.target.divisible

    def sized(self, n_rows: int, n_cols: int) -> PairLabels:
        if not n_rows == n_cols == len(self.labels):
            raise UserError(
                f"there are {len(self.labels)} labels, but {n_rows} rows and {n_cols} columns; give one per pair"
            )
        return PairLabels(self.target.sized(n_rows, n_cols), self.labels)

    def whole(self, gather: Gather, n_rows: int, n_cols: int) -> PairLabels:
        return PairLabels(self.target.whole(gather, n_rows, n_cols), gather(self.labels)).sized(n_rows, n_cols)

    def block(self, rows: range, cols: range, like: Tensor, scores: Scores | None = None) -> TargetBlock:
        hard, labels = self.target.block(rows, cols, like), self.labels.to(like)
        by_row = None if hard.by_row is None else hard.by_row * labels[rows.start : rows.stop, None]
        by_col = None if hard.by_col is None else hard.by_col * labels[cols.start : cols.stop]
        return TargetBlock(by_row, by_col, hard=hard)
