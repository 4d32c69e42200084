"""Label smoothing: a little of the share goes to all other pairs, evenly.

Szegedy et al. 2016, "Rethinking the Inception Architecture", §7; Gao et al. 2024 (SoftCLIP), Eq. 5, as in PyramidCLIP.

    target = (1 - α) y + α / (N - 1) · (1 - [y > 0])        α = 0.2

y [N, M] the hard target `of`, N the length of a row. With several matches per row the α is shared by those that do
not match, N minus their number; where all match, nothing is smoothed. Unlike torch's `label_smoothing` the match itself
gets none of the α.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from equipoise.settings.choice import choice, choose_by_name
from equipoise.spaces import Space
from equipoise.targets.duplicates import HARD_TARGETS
from equipoise.targets.target import Gather, HardTarget, Scores, Target, TargetBlock
from equipoise.types import Batch, Embeddings, UserError


@dataclass(frozen=True)
class Smoothed(Target):
    cites: ClassVar[tuple[str, ...]] = ("szegedy2016inception", "gao2024softclip")
    soft: ClassVar[bool] = True

    alpha: float = 0.2  # the share that all others have together
    of: HardTarget = choice(HARD_TARGETS, "one_hot")  # what is smoothed

    def __post_init__(self) -> None:
        choose_by_name(self)
        if not 0 < self.alpha < 1:
            raise UserError(f"alpha must be between 0 and 1, not {self.alpha}")

    @property
    def matches_classes(self) -> bool:
        return self.of.matches_classes

    def bind(self, embeddings: Embeddings, batch: Batch | None, *, log_scale: Tensor | float, space: Space) -> Target:
        return replace(self, of=self.of.bind(embeddings, batch, log_scale=log_scale, space=space))

    def sized(self, n_rows: int, n_cols: int) -> Target:
        return _Smoothed(self.alpha, self.of.sized(n_rows, n_cols), n_rows, n_cols)

    @property
    def divisible(self) -> bool:  # type: ignore[override]
        return self.of.divisible

    def whole(self, gather: Gather, n_rows: int, n_cols: int) -> Target:
        return _Smoothed(self.alpha, self.of.whole(gather, n_rows, n_cols), n_rows, n_cols)

    def block(self, rows: range, cols: range, like: Tensor, scores: Scores | None = None) -> TargetBlock:
        raise UserError("label smoothing must know the size of the batch; call target.sized(rows, columns) first")


@dataclass(frozen=True)
class _Smoothed(Target):
    """Label smoothing of a matrix of known size."""

    soft: ClassVar[bool] = True

    alpha: float
    of: HardTarget
    n_rows: int
    n_cols: int

    def scores(self, rows: range, cols: range, like: Tensor) -> Scores:
        even = like.new_zeros(len(rows), len(cols))
        return Scores(even, even, self.of.positive(rows, cols, like.device))

    def block(self, rows: range, cols: range, like: Tensor, scores: Scores | None = None) -> TargetBlock:
        scores = scores or self.scores(rows, cols, like)
        hard = self.of.block(rows, cols, like)
        by_row = self._mixed(hard.by_row, scores, self._each(rows, self.n_cols, like)[:, None])
        by_col = self._mixed(hard.by_col, scores, self._each(cols, self.n_rows, like))
        return TargetBlock(by_row, by_col, scores=scores)

    def _each(self, numbers: range, length: int, like: Tensor) -> Tensor:
        """The share of every pair that does not match."""
        rest = length - self.of.counts(numbers, like)
        return torch.where(rest > 0, self.alpha / rest.clamp(min=1), 0)

    def _mixed(self, hard: Tensor | None, scores: Scores, each: Tensor) -> Tensor:
        if hard is None or scores.positive is None:
            return each.expand_as(scores.by_row)
        kept = torch.where(each > 0, (1 - self.alpha) * hard, hard)
        return torch.where(scores.positive, kept, each)
