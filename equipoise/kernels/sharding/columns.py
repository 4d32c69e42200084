"""Columns of a contrast, wherever they are. Its rows are on this process; the columns are too, or come in shards.

The engines (`kernels/tiled.py`, `kernels/tiled_normalized.py`) are written against `Columns.for_each_shard` alone: they
say what to do with a shard of columns, and which numbers per column to reduce, and do not know which process holds
which. `Local` is one process with all columns; `ring.py` and `all_gather.py` are several, each with its shard of rows
and columns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from torch import Tensor

from equipoise.forms.form import Reduction

# What this process's rows make of a block of columns: the number of its first column, the columns' points and numbers
# -> numbers per column
OnBlock = Callable[[int, Sequence[Tensor]], list[Tensor]]


class Columns(ABC):
    shape: tuple[int, int]  # rows and columns of the whole matrix
    first_row: int  # the number of this process's first row in it
    share: float  # this process's part of the rows, and of the columns
    grad_factor: int  # of points: wrappers average over processes the gradients of parameters that should be summed

    @abstractmethod
    def for_each_shard(
        self, points: Sequence[Tensor], numbers: Sequence[Tensor], on_block: OnBlock, reductions: Sequence[Reduction]
    ) -> list[Tensor]:
        """Call `on_block` once per shard of columns; return what all rows made of this process's columns, reduced.

        points, numbers [m, ...]: of this process's own columns; points are the same in every call."""

    @abstractmethod
    def all_reduce(self, tensor: Tensor) -> Tensor:
        """The sum over all processes; `tensor` itself may be changed."""


class Local(Columns):
    """All columns, on one process."""

    def __init__(self, n_rows: int, n_cols: int):
        self.shape, self.first_row, self.share, self.grad_factor = (n_rows, n_cols), 0, 1.0, 1

    def for_each_shard(
        self, points: Sequence[Tensor], numbers: Sequence[Tensor], on_block: OnBlock, reductions: Sequence[Reduction]
    ) -> list[Tensor]:
        return on_block(0, [*points, *numbers])

    def all_reduce(self, tensor: Tensor) -> Tensor:
        return tensor
