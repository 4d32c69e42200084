"""Where the columns of a contrast are. Its rows are here; the columns are too, or come by in parts.

The engines (`tiled.py`, `kernels/tiled_normalized.py`) are written against `Columns.round` alone: they say what to do
with some columns, and which numbers of every column are wanted, and do not know who holds which. `Local` is one process
with all columns; `ring.py` and `all_gather.py` are several, each with its part of rows and columns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from torch import Tensor

from equipoise.forms.form import Reduction

# What this process's rows make of some columns: the number of the first of them, their points and their numbers ->
# numbers for each of them
Visit = Callable[[int, Sequence[Tensor]], list[Tensor]]


class Columns(ABC):
    shape: tuple[int, int]  # rows and columns of the whole matrix
    first_row: int  # the number of this process's first row in it
    share: float  # this process's part of the rows, and of the columns
    averaged: int  # over so many processes gradients of parameters will be averaged, though they should be summed

    @abstractmethod
    def round(
        self, points: Sequence[Tensor], numbers: Sequence[Tensor], visit: Visit, rules: Sequence[Reduction]
    ) -> list[Tensor]:
        """`visit` every part of the columns once; what all rows made of this process's columns, merged by `rules`.

        points, numbers [m, ...]: what this process knows of its own columns; points are the same in every round."""

    @abstractmethod
    def total(self, tensor: Tensor) -> Tensor:
        """The sum over all processes; `tensor` itself may be changed."""


class Local(Columns):
    """All columns are here."""

    def __init__(self, n_rows: int, n_cols: int):
        self.shape, self.first_row, self.share, self.averaged = (n_rows, n_cols), 0, 1.0, 1

    def round(
        self, points: Sequence[Tensor], numbers: Sequence[Tensor], visit: Visit, rules: Sequence[Reduction]
    ) -> list[Tensor]:
        return visit(0, [*points, *numbers])

    def total(self, tensor: Tensor) -> Tensor:
        return tensor
