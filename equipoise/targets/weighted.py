"""Pairs that count by how likely they are right: the rows and columns of any target, weighted.

    L = ½ [mean_i m_i ℓ_i  +  mean_j m_j ℓ'_j]        m_i = w_i N / Σ w,   so the mean of all m is 1

ℓ_i the cost of row i by whatever form, ℓ'_j that of column j, w [N] the weight of pair i: its image, and the text it
came with. All points stay as negatives of the others. With equal weights this is the target itself. Blocks carry the
weights, and `Form.statistics` counts rows and columns by them, whatever computes it: eager, in tiles, in shards, or
fused. It is no choice of a recipe: `[keep]` sets the weights (docs/clean.md).

Where one side of a batch is mixed (`objectives/mixup`), a row matches texts of two pairs, each by its own weight:

    L = ½ [mean_i Σ_j m_j p_ij c_ij  +  mean_j Σ_i m_j p'_ij c'_ij]          c, c' the cross-entropies of matches

with j the side that is not mixed (`WeightedMatches`).
"""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from equipoise.data.keep.weights import PAIR_WEIGHT
from equipoise.targets.target import Gather, Scores, Target, TargetBlock
from equipoise.types import Batch, UserError


class WeightedPairs(Target):
    """A target whose rows and columns count by the weights [N] of their pairs."""

    weighted: ClassVar[bool] = True

    def __init__(self, target: Target, weights: Tensor):
        self.target, self.weights, self.masses = target, weights, relative(weights.double())

    @property
    def soft(self) -> bool:  # type: ignore[override]
        return self.target.soft

    @property
    def guided(self) -> bool:  # type: ignore[override]
        return self.target.guided

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
        weights = gather(self.weights)
        if not n_rows == n_cols == len(weights):
            raise UserError(
                f"there are {len(weights)} weights, but {n_rows} rows and {n_cols} columns; give one per pair"
            )
        return WeightedPairs(self.target.whole(gather, n_rows, n_cols), weights)

    def tensors(self) -> tuple[Tensor, ...]:
        return self.target.tensors()

    def sides(self) -> tuple[str, ...]:
        return self.target.sides()

    def on(self, tensors: tuple[Tensor, ...], origin: tuple[int, int] = (0, 0)) -> WeightedPairs:
        return WeightedPairs(self.target.on(tensors, origin), self.weights)

    def scores(self, rows: range, cols: range, like: Tensor) -> Scores | None:
        return self.target.scores(rows, cols, like)

    def block(self, rows: range, cols: range, like: Tensor, scores: Scores | None = None) -> TargetBlock:
        masses = (self.masses[numbers.start : numbers.stop].to(like) for numbers in (rows, cols))
        return self.target.block(rows, cols, like, scores).weighed(*masses)


class WeightedRows(WeightedPairs):
    """The same where only rows are held against columns, of which there may be others (a queue's) behind theirs."""

    def sized(self, n_rows: int, n_cols: int) -> WeightedRows:
        if n_rows != len(self.weights):
            raise UserError(f"there are {len(self.weights)} weights, but {n_rows} rows; give one per pair")
        return WeightedRows(self.target.sized(n_rows, n_cols), self.weights)

    def on(self, tensors: tuple[Tensor, ...], origin: tuple[int, int] = (0, 0)) -> WeightedRows:
        return WeightedRows(self.target.on(tensors, origin), self.weights)

    def block(self, rows: range, cols: range, like: Tensor, scores: Scores | None = None) -> TargetBlock:
        masses = self.masses[rows.start : rows.stop].to(like)
        return self.target.block(rows, cols, like, scores).weighed(masses, like.new_ones(len(cols)))


class WeightedMatches(Target):
    """A target without guides whose matches count by the weight of their column; for the cross-entropy alone, which
    takes a target of any mass."""

    def __init__(self, target: Target, weights: Tensor):
        self.target, self.weights, self.masses = target, weights, relative(weights.double())

    def sized(self, n_rows: int, n_cols: int) -> WeightedMatches:
        if n_cols != len(self.weights):
            raise UserError(f"there are {len(self.weights)} weights, but {n_cols} columns; give one per pair")
        return WeightedMatches(self.target.sized(n_rows, n_cols), self.weights)

    def block(self, rows: range, cols: range, like: Tensor, scores: Scores | None = None) -> TargetBlock:
        block = self.target.block(rows, cols, like, scores)
        mass = self.masses[cols.start : cols.stop].to(like)
        by_row, by_col = (None if shares is None else shares * mass for shares in (block.by_row, block.by_col))
        return TargetBlock(by_row, by_col)


def relative(weights: Tensor) -> Tensor:
    """w N / Σ w of pairs [N]: how many times each counts. Zeros where all are zero."""
    return weights / weights.mean().clamp(min=1e-12)


def pair_weights_of(batch: Batch | None) -> Tensor | None:
    """The weights [N] that the batch brings; None where it brings none, and all pairs count alike."""
    return None if batch is None else batch.side.get(PAIR_WEIGHT)


def weighted_pairs(target: Target, weights: Tensor | None) -> Target:
    """The target with these weights; the target itself where there are none."""
    return target if weights is None else WeightedPairs(target, weights)


def weighted_matches(target: Target, weights: Tensor | None) -> Target:
    return target if weights is None else WeightedMatches(target, weights)
