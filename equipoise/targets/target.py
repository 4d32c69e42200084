"""The target protocol: the distribution to be learned, for any block of the N × M matrix of pairs.

`by_row[i, j]` is the share of row i's attention that should go to column j (rows sum to 1 over all columns),
`by_col[i, j]` the share of column j's attention that should go to row i. They differ as soon as targets are soft.

A target that depends on the batch is bound to it first (`bind`); one whose shares are a softmax cannot know them from
a block alone, so it gives `scores`, the engine adds them up over whole rows and columns, and `block` is given the sums.

A batch may lie in shards, of which only one was bound. A `divisible` target then becomes that of the whole batch
(`whole`): a few numbers per sample are gathered, while points stay where they are and are handed in block by block.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from equipoise.spaces import Space
from equipoise.types import Batch, Embeddings

Gather = Callable[[Tensor], Tensor]  # [n, ...] of one shard of the samples -> [N, ...] of all of them
ROWS, COLS, SHARED = "rows", "cols", "shared"  # what a target's tensor has entries for


class Scores(NamedTuple):
    """Logarithms of the shares of negatives, each up to a constant of its row (`by_row`) or its column (`by_col`)."""

    by_row: Tensor  # [R, C]
    by_col: Tensor
    positive: Tensor | None  # bool [R, C]: pairs that are no negatives; None where all are
    row_norms: Tensor | None = None  # [R] log Σ_j exp by_row over the whole rows, once they are known
    col_norms: Tensor | None = None  # [C]
    known: tuple[Tensor, Tensor] | None = None  # bool [R] and [C]: False where there is no guide, so that the hard
    # target stays; None where all have one


class TargetBlock:
    """Shares [R, C] of one block, or their logarithms where the shares may be too small for a float."""

    def __init__(
        self,
        by_row: Tensor | None = None,  # None where the whole block is zero, so that it costs nothing
        by_col: Tensor | None = None,
        *,
        logs: tuple[Tensor, Tensor] | None = None,  # instead of both
        scores: Scores | None = None,  # what the shares were made of, for forms that look at negatives alone
        hard: TargetBlock | None = None,  # the block of the target that was softened; None where none was
        weights: tuple[Tensor, Tensor] | None = None,  # [R] and [C]: how much rows and columns count; None: all alike
    ):
        self._shares, self.logs, self.scores, self._hard = (by_row, by_col), logs, scores, hard
        self.weights = weights

    def weighed(self, rows: Tensor, cols: Tensor) -> TargetBlock:
        """The same shares, of rows [R] and columns [C] that count by these weights (`Form.statistics`)."""
        return TargetBlock(*self._shares, logs=self.logs, scores=self.scores, hard=self._hard, weights=(rows, cols))

    @property
    def hard(self) -> TargetBlock:
        return self._hard or self

    @property
    def by_row(self) -> Tensor | None:
        return self._shares[0] if self.logs is None else self.logs[0].exp()

    @property
    def by_col(self) -> Tensor | None:
        return self._shares[1] if self.logs is None else self.logs[1].exp()

    def log_shares(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """The logarithms of shares by row and by column, `log_zero` where there is no share."""
        if self.logs is not None:
            return self.logs
        zero = log_zero(like)
        nothing = torch.full_like(like, zero)
        by_row, by_col = (nothing if share is None else share.log().clamp(min=zero) for share in self._shares)
        return by_row, by_col


def log_zero(like: Tensor) -> float:
    """A finite stand-in for log 0: its exponential is 0, its differences are finite."""
    return torch.finfo(like.dtype).min / 4


class Target(ABC):
    soft: ClassVar[bool] = False  # whether every pair gets a share, however small
    guided: ClassVar[bool] = False  # whether the shares are a softmax of `scores`, and need their sums first
    divisible: ClassVar[bool] = False  # whether `whole` is known for one that was bound to a shard of the batch
    weighted: ClassVar[bool] = False  # whether its blocks have weights, so that the form must know what to do with them

    @property
    def matches_classes(self) -> bool:
        """Whether samples of one class count as each other's matches."""
        return False

    @property
    def needs(self) -> tuple[str, ...]:
        """The roles of `Embeddings` it reads, beyond those it is a target for."""
        return ()

    @property
    def trains(self) -> tuple[str, ...]:
        """The roles among `needs` that a gradient flows back into."""
        return self.needs

    def bind(self, embeddings: Embeddings, batch: Batch | None, *, log_scale: Tensor | float, space: Space) -> Target:
        """The target bound to this batch."""
        return self

    def sized(self, n_rows: int, n_cols: int) -> Target:
        """The target of a matrix of this size; raises UserError where there is none."""
        return self

    def whole(self, gather: Gather, n_rows: int, n_cols: int) -> Target:
        """The target of a matrix of this size, from one bound to a shard of the samples; `gather` makes numbers of all
        samples from those of the shards."""
        return self.sized(n_rows, n_cols)

    def tensors(self) -> tuple[Tensor, ...]:
        """Tensors it was bound to, which may require gradients."""
        return ()

    def sides(self) -> tuple[str, ...]:
        """For each of `tensors()`: whether it has an entry per row (ROWS), per column (COLS), or is common (SHARED)."""
        return ()

    def on(self, tensors: tuple[Tensor, ...], origin: tuple[int, int] = (0, 0)) -> Target:
        """The same target bound to these tensors, given in the order of `tensors()`; the first of those for rows, and
        of those for columns, have these numbers in the batch."""
        return self

    def scores(self, rows: range, cols: range, like: Tensor) -> Scores | None:
        """The scores of a soft target; None for others."""
        return None

    @abstractmethod
    def block(self, rows: range, cols: range, like: Tensor, scores: Scores | None = None) -> TargetBlock:
        """The block of these rows and columns of the global batch, with the dtype and device of `like`.

        `scores` are those of the same block, with their norms where the target is guided.
        """


class HardTarget(Target):
    """A target of two kinds of pairs: matches, which share everything evenly, and the rest."""

    def bind(
        self, embeddings: Embeddings, batch: Batch | None, *, log_scale: Tensor | float, space: Space
    ) -> HardTarget:
        return self

    def sized(self, n_rows: int, n_cols: int) -> HardTarget:
        return self

    def whole(self, gather: Gather, n_rows: int, n_cols: int) -> HardTarget:
        return self.sized(n_rows, n_cols)

    @abstractmethod
    def positive(self, rows: range, cols: range, device: torch.device) -> Tensor | None:
        """Bool [R, C]: which pairs match; None where none does."""

    @abstractmethod
    def counts(self, numbers: range, like: Tensor) -> Tensor:
        """The number of matches of each of these rows; columns have the same."""

    def block(self, rows: range, cols: range, like: Tensor, scores: Scores | None = None) -> TargetBlock:
        positive = self.positive(rows, cols, like.device)
        if positive is None:
            return TargetBlock(None, None)
        matches = positive.to(like.dtype)
        return TargetBlock(matches / self.counts(rows, like)[:, None], matches / self.counts(cols, like))
