"""The block protocol: a loss over an N × M matrix of logits that never needs the whole matrix.

A form reduces each block to a few numbers a row and a column (`partial`), blocks combine by known rules (`merge`),
the loss follows from the combined numbers (`finish`), and so does the gradient of any block (`grad`):

    statistics = start(N, M)
    for every block:  statistics[rows, cols] = merge(statistics[rows, cols], partial(logits, target))
    loss = finish(statistics)
    for every block:  d loss / d logits = grad(logits, target, statistics[rows, cols])

`partial` and `finish` are differentiable, so one block over everything under autograd is the eager path and the
oracle for `grad`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from equipoise.targets import TargetBlock


class Reduction(NamedTuple):
    """How the statistics of two blocks side by side become those of both."""

    start: float
    merge: Callable[[Tensor, Tensor], Tensor]


SUM = Reduction(0.0, torch.add)
LOG_SUM_EXP = Reduction(-torch.inf, torch.logaddexp)


@dataclass(frozen=True)
class Statistics:
    """Named numbers a row [R] and a column [C] of a block, or of the whole matrix."""

    rows: Mapping[str, Tensor]
    cols: Mapping[str, Tensor]
    shape: tuple[int, int]  # rows and columns of the whole matrix, for means

    def at(self, rows: range, cols: range) -> Statistics:
        """Views of some rows and columns; writing to them writes here."""
        return Statistics(
            {name: value[rows.start : rows.stop] for name, value in self.rows.items()},
            {name: value[cols.start : cols.stop] for name, value in self.cols.items()},
            self.shape,
        )


class Form(ABC):
    reductions: ClassVar[Mapping[str, Reduction]]

    def start(self, n_rows: int, n_cols: int, like: Tensor) -> Statistics:
        def empty(length: int) -> dict[str, Tensor]:
            return {name: like.new_full((length,), r.start) for name, r in self.reductions.items()}

        return Statistics(empty(n_rows), empty(n_cols), (n_rows, n_cols))

    def merge(self, into: Statistics, block: Statistics) -> None:
        """Combine a block's statistics into those of its rows and columns, in place."""
        for old, new in ((into.rows, block.rows), (into.cols, block.cols)):
            for name, reduction in self.reductions.items():
                old[name].copy_(reduction.merge(old[name], new[name]))

    @abstractmethod
    def partial(self, logits: Tensor, target: TargetBlock) -> Statistics:
        """The statistics of one block of logits [R, C]."""

    @abstractmethod
    def finish(self, statistics: Statistics) -> Tensor:
        """The loss, from the statistics of the whole matrix."""

    @abstractmethod
    def grad(self, logits: Tensor, target: TargetBlock, statistics: Statistics) -> Tensor:
        """d loss / d logits [R, C] of one block, given the whole matrix's statistics of its rows and columns."""
