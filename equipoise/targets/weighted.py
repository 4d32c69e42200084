"""Pairs that count by how likely they are right: the rows and columns of any unguided target, weighted.

    L = ½ [Σ_i w_i ℓ_i / Σ w  +  Σ_j w_j ℓ'_j / Σ w]

ℓ_i the cross-entropy of row i, ℓ'_j that of column j, w [N] the weight of pair i: its image, and the text it came with.
All points stay as negatives of the others. With equal weights this is the target itself. The cross-entropy multiplies
each row's log-sum by the mass of its target, so a row that counts w N / Σ w times is a target with that mass, whatever
computes it: eager, in tiles, or in shards. It is no choice of a recipe: `[keep]` sets the weights (docs/clean.md).
"""

from __future__ import annotations

from torch import Tensor

from equipoise.data.keep.weights import PAIR_WEIGHT
from equipoise.targets.target import Gather, Scores, Target, TargetBlock
from equipoise.types import Batch, UserError


class WeightedPairs(Target):
    """A target whose rows and columns count by the weights [N] of their pairs."""

    def __init__(self, target: Target, weights: Tensor):
        self.target, self.weights = target, weights
        if target.guided:
            raise UserError(
                f"the target {type(target).__name__} is guided, and its pairs have no weights yet; choose the rule "
                "threshold or share"
            )

    @property
    def soft(self) -> bool:  # type: ignore[override]
        return self.target.soft

    @property
    def divisible(self) -> bool:  # type: ignore[override]
        return self.target.divisible

    def sized(self, n_rows: int, n_cols: int) -> WeightedPairs:
        if not n_rows == n_cols == len(self.weights):
            raise UserError(
                f"there are {len(self.weights)} weights, but {n_rows} rows and {n_cols} columns; give one per pair"
            )
        return WeightedPairs(self.target.sized(n_rows, n_cols), self.weights)

    def whole(self, gather: Gather, n_rows: int, n_cols: int) -> WeightedPairs:
        return WeightedPairs(self.target.whole(gather, n_rows, n_cols), gather(self.weights)).sized(n_rows, n_cols)

    def scores(self, rows: range, cols: range, like: Tensor) -> Scores | None:
        return self.target.scores(rows, cols, like)

    def block(self, rows: range, cols: range, like: Tensor, scores: Scores | None = None) -> TargetBlock:
        block = self.target.block(rows, cols, like, scores)
        by_row = None if block.by_row is None else block.by_row * self._mass(rows, like)[:, None]
        by_col = None if block.by_col is None else block.by_col * self._mass(cols, like)
        return TargetBlock(by_row, by_col, scores=block.scores)

    def _mass(self, numbers: range, like: Tensor) -> Tensor:
        """w N / Σ w of these pairs; the mean over all is 1."""
        weights = self.weights.to(like)
        return weights[numbers.start : numbers.stop] / weights.mean().clamp(min=1e-12)


def with_pair_weights(target: Target, batch: Batch | None) -> Target:
    """The target with the weights that the batch brings; the target itself where it brings none."""
    weights = None if batch is None else batch.side.get(PAIR_WEIGHT)
    return target if weights is None else WeightedPairs(target, weights)
