"""The block protocol: a loss over an N × M matrix of logits that never needs the whole matrix.

A form reduces each block to a few numbers per row and per column (`partial`), blocks combine by known rules (`merge`),
and the loss follows from the combined numbers (`finish`). A form that compares distributions must know their
normalizers before it can use any entry; it names them (`normalizer_names`), and they are added up first
(`normalizers`):

    normalizers = log-sums over whole rows and columns of what normalizers(logits, scores) gives for every block
    statistics = start(N, M)
    for every block:  merge(statistics[rows, cols], partial(logits, target, normalizers[rows, cols]))
    loss = finish(statistics)

Where pairs have weights, a block's sums are multiplied by those of their rows and columns before they are merged
(`statistics`); every form whose loss is linear in its sums is `weighable`, and says so.

All of them are differentiable, so one block over everything under autograd is the eager path, and the gradient of a
tile is that of its own few numbers. A form that needs no normalizers may know its gradient (`ClosedFormGrad.grad`):

    for every block:  d loss / d logits = grad(logits, target, statistics[rows, cols])
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from equipoise.targets import Scores, Target, TargetBlock


class Reduction(NamedTuple):
    """Rule by which the statistics of two blocks side by side become those of both."""

    start: float
    merge: Callable[[Tensor, Tensor], Tensor]


SUM = Reduction(0.0, torch.add)
LOG_SUM_EXP = Reduction(-torch.inf, torch.logaddexp)


@dataclass(frozen=True)
class Statistics:
    """Named numbers per row [R] and per column [C] of a block, or of the whole matrix."""

    rows: Mapping[str, Tensor]
    cols: Mapping[str, Tensor]
    shape: tuple[int, int]  # rows and columns of the whole matrix, for means

    def at(self, rows: range, cols: range) -> Statistics:
        """Views of these rows and columns: writing to them writes to the whole."""
        return Statistics(
            {name: value[rows.start : rows.stop] for name, value in self.rows.items()},
            {name: value[cols.start : cols.stop] for name, value in self.cols.items()},
            self.shape,
        )


class Form(ABC):
    reductions: ClassVar[Mapping[str, Reduction]]
    normalizer_names: ClassVar[tuple[str, ...]] = ()
    tileable: ClassVar[bool] = True  # False: `partial` must see all logits at once, so only eager computes it
    divisible: ClassVar[bool] = False  # whether the loss is a mean over rows, over columns or over both: that of parts
    # of them, each with as large a part of the rows as of the columns, then averages to that of the whole
    weighable: ClassVar[bool] = False  # whether the loss is linear in the SUM statistics of every row and column, and
    # `grad`, where there is one, counts them by `target.weights`: then rows and columns may have weights

    @property
    def learned_bias(self) -> float | None:
        """The initial value of a learned bias of the logits; None for a form that learns none."""
        return None

    def shifted(self, logits: Tensor, bias: Tensor) -> Tensor:
        """Logits with the learned bias, where the form has one."""
        return logits if self.learned_bias is None else logits + bias

    def start(self, n_rows: int, n_cols: int, like: Tensor) -> Statistics:
        return empty(self.reductions, n_rows, n_cols, like)

    def merge(self, into: Statistics, block: Statistics) -> None:
        """Combine a block's statistics into those of its rows and columns, in place."""
        merge(self.reductions, into, block)

    def check(self, target: Target) -> None:
        """Raise UserError for a target that makes no sense with this form."""
        return

    def normalizers(self, logits: Tensor, scores: Scores | None) -> Statistics:
        """The logarithms of this block's part in each of `normalizer_names`."""
        return Statistics({}, {}, (logits.shape[0], logits.shape[1]))

    @abstractmethod
    def partial(self, logits: Tensor, target: TargetBlock, normalizers: Statistics | None = None) -> Statistics:
        """The statistics of one block of logits [R, C], given the whole matrix's normalizers of its rows and
        columns."""

    def statistics(self, logits: Tensor, target: TargetBlock, normalizers: Statistics | None = None) -> Statistics:
        """`partial`, with every row and column counted by its weight where the target has any."""
        found = self.partial(logits, target, normalizers)
        if target.weights is None:
            return found
        rows, cols = (
            {name: weights * value if self.reductions[name] is SUM else value for name, value in side.items()}
            for side, weights in zip((found.rows, found.cols), target.weights, strict=True)
        )
        return Statistics(rows, cols, found.shape)

    @abstractmethod
    def finish(self, statistics: Statistics) -> Tensor:
        """The loss, from the statistics of the whole matrix."""


class ClosedFormGrad(Form):
    """A form without normalizers that knows its gradient, which spares a tiled run half of its work."""

    @abstractmethod
    def grad(self, logits: Tensor, target: TargetBlock, statistics: Statistics) -> Tensor:
        """d loss / d logits [R, C] of one block, given the whole matrix's statistics of its rows and columns."""


def empty(reductions: Mapping[str, Reduction], n_rows: int, n_cols: int, like: Tensor) -> Statistics:
    """The statistics of an empty matrix, which blocks are merged into."""

    def numbers(length: int) -> dict[str, Tensor]:
        return {name: like.new_full((length,), r.start) for name, r in reductions.items()}

    return Statistics(numbers(n_rows), numbers(n_cols), (n_rows, n_cols))


def merge(reductions: Mapping[str, Reduction], into: Statistics, block: Statistics) -> None:
    for old, new in ((into.rows, block.rows), (into.cols, block.cols)):
        for name, reduction in reductions.items():
            old[name].copy_(reduction.merge(old[name], new[name]))
