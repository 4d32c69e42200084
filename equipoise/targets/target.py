"""What every target answers: the wanted distribution, for any block of the N × M matrix of pairs.

`by_row[i, j]` is the share of row i's attention that should go to column j (rows sum to 1 over all columns),
`by_col[i, j]` the share of column j's attention that should go to row i. They differ as soon as targets are soft.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from torch import Tensor


class TargetBlock(NamedTuple):
    by_row: Tensor | None  # [R, C]; None where the whole block is zero, so that it costs nothing
    by_col: Tensor | None


class Target(ABC):
    @abstractmethod
    def block(self, rows: range, cols: range, like: Tensor) -> TargetBlock:
        """The block of these rows and columns of the global batch, with the dtype and device of `like`."""
