"""Scorers: how close rows are to columns, which is all that a contrast asks.

    s(rows [R, d], cols [C, d]) -> [R, C]        larger is closer, without logit scale

A `Space` is a scorer whose rows and columns are points of one kind. Those of `scorers/` are no spaces: their rows and
columns are of different kinds, so nothing is symmetric, and they have no range of their own. Every engine of `kernels/`
takes any scorer.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor

PAIRS_AT_ONCE = 64  # pairs whose similarities are read off the diagonal of one block


class Scorer(Protocol):
    @property
    def dim(self) -> int:
        """Numbers per row, and per column."""

    def similarity(self, rows: Tensor, cols: Tensor) -> Tensor:
        """Rows [R, dim] and columns [C, dim] to [R, C]; a block of rows and columns gives that block of the whole."""


class ScoredPoints(NamedTuple):
    """Rows and columns, and the scorer that compares them."""

    rows: Tensor
    cols: Tensor
    scorer: Scorer


def paired_similarity(scorer: Scorer, rows: Tensor, cols: Tensor) -> Tensor:
    """The similarity of each row with the column at its place: [N, d] and [N, d] to [N]."""
    parts = zip(rows.split(PAIRS_AT_ONCE), cols.split(PAIRS_AT_ONCE), strict=True)
    return torch.cat([scorer.similarity(u, v).diagonal() for u, v in parts])
