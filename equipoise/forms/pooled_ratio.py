"""All matches together against all other pairs together: one logarithm of two sums over the whole matrix.

Oh et al. 2023, "Geodesic Multi-Modal Mixup for Robust Fine-Tuning", App. A.3, read word for word ("a negative logarithm
of the sum of positive similarities over the sum of negative similarities").

    L = -log [ Σ_{ij matches} exp z_ij / Σ_{ij others} exp z_ij ]

z [N, M] logits exp(t)·s(u, v). Unbounded below: matches are no part of the denominator, so a larger scale or farther
others lower it for ever; and one close match carries the sum for all. `cross_entropy` has the matches in its
denominators, one per row and per column, and is at least 0. There must be a match and a pair that is none. Not among
the forms of a recipe: `objectives/modalities/gmc_mix.py` uses it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from equipoise.forms.form import LOG_SUM_EXP, Form, Reduction, Statistics
from equipoise.targets import TargetBlock
from equipoise.targets.target import log_zero


@dataclass(frozen=True)
class PooledRatio(Form):
    cites: ClassVar[tuple[str, ...]] = ("oh2023geodesic",)
    reductions: ClassVar[Mapping[str, Reduction]] = {"matches": LOG_SUM_EXP, "others": LOG_SUM_EXP}

    def partial(self, logits: Tensor, target: TargetBlock, normalizers: Statistics | None = None) -> Statistics:
        sides = [_sums(logits, share, dim) for share, dim in ((target.by_row, 1), (target.by_col, 0))]
        return Statistics(sides[0], sides[1], (logits.shape[0], logits.shape[1]))

    def finish(self, statistics: Statistics) -> Tensor:
        by_row, by_col = map(_log_ratio, (statistics.rows, statistics.cols))
        return (by_row + by_col) / 2  # equal: either sums up the whole matrix, and engines ask for both gradients


def _log_ratio(sums: Mapping[str, Tensor]) -> Tensor:
    return sums["others"].logsumexp(0) - sums["matches"].logsumexp(0)


def _sums(logits: Tensor, share: Tensor | None, dim: int) -> dict[str, Tensor]:
    matches = torch.zeros_like(logits, dtype=torch.bool) if share is None else share > 0
    nothing = log_zero(logits)
    parts = {"matches": ~matches, "others": matches}  # what each leaves out
    return {name: logits.masked_fill(out, nothing).logsumexp(dim) for name, out in parts.items()}
