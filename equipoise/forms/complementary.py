"""Negatives alone: a pair that is wrong is pushed nowhere, for its match is never pulled.

Hu et al. 2023, "Cross-Modal Retrieval with Partially Mismatched Pairs" (RCL), robust complementary contrastive loss.

    L = ½ [ mean_i Σ_j (1 - p_ij) (-log(1 - q_ij)) + mean_j Σ_i (1 - p'_ij) (-log(1 - q'_ij)) ]

q = softmax_j z, q' = softmax_i z; z [N, M] logits exp(t)·s(u, v); p, p' the target by row and by column, 1 for a match.
The paper adds the two directions and holds exp(-t) at 0.05; here they are averaged, as everywhere, and t may be
learned. 1 - q is taken from log q, and no closer to 0 than `LEAST`, so that a negative that takes all costs a finite
sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from equipoise.forms.form import SUM, Form, Reduction, Statistics
from equipoise.targets import Scores, TargetBlock

LEAST = 1e-6  # of 1 - q
LN2 = 0.6931471805599453


@dataclass(frozen=True)
class Complementary(Form):
    cites: ClassVar[tuple[str, ...]] = ("hu2023rcl",)
    reductions: ClassVar[Mapping[str, Reduction]] = {"cost": SUM}
    normalizer_names: ClassVar[tuple[str, ...]] = ("logits",)
    divisible: ClassVar[bool] = True
    weighable: ClassVar[bool] = True

    def normalizers(self, logits: Tensor, scores: Scores | None) -> Statistics:
        rows, cols = ({"logits": torch.logsumexp(logits, dim)} for dim in (1, 0))
        return Statistics(rows, cols, (logits.shape[0], logits.shape[1]))

    def partial(self, logits: Tensor, target: TargetBlock, normalizers: Statistics | None = None) -> Statistics:
        assert normalizers is not None
        by_row = _cost(logits - normalizers.rows["logits"][:, None], target.by_row)
        by_col = _cost(logits - normalizers.cols["logits"], target.by_col)
        return Statistics({"cost": by_row.sum(1)}, {"cost": by_col.sum(0)}, (logits.shape[0], logits.shape[1]))

    def finish(self, statistics: Statistics) -> Tensor:
        return (statistics.rows["cost"].mean() + statistics.cols["cost"].mean()) / 2


def _cost(log_q: Tensor, p: Tensor | None) -> Tensor:
    below = log_q.clamp(max=-LEAST)
    near_one = below > -LN2  # where 1 - q is the small one of the two, expm1 keeps its digits
    cost = -torch.where(
        near_one, (-torch.expm1(below.clamp(min=-LN2))).log(), torch.log1p(-below.clamp(max=-LN2).exp())
    )
    return cost if p is None else (1 - p) * cost
