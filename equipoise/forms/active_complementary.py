"""Matches as far as they are trusted, negatives always: CRCL's active complementary loss.

Qin et al. 2023, "Cross-modal Active Complementary Learning with Self-refining Correspondence", Eq. 4-6.

    L = ½ [ mean_i ℓ_i + mean_j ℓ'_j ]
    ℓ_i = Σ_j p_ij (-log q_ij) + λ Σ_{j no match} tan q_ij / (Σ_j tan q_ij)^(1 - y_i),      y_i = Σ_j p_ij

q = softmax_j z, q' = softmax_i z; z [N, M] logits exp(t)·s(u, v); p the target by row, y_i of it on the matches: 1
where they are trusted, less where `targets/pair_labels.py` says so; ℓ' the same by column. λ = `weight` = 5. The paper
adds the two directions and holds exp(-t) at 0.05; here they are averaged, as everywhere, and t may be learned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from equipoise.forms.form import SUM, Form, Reduction, Statistics
from equipoise.targets import Scores, Target, TargetBlock
from equipoise.types import UserError


@dataclass(frozen=True)
class ActiveComplementary(Form):
    cites: ClassVar[tuple[str, ...]] = ("qin2023crcl",)
    reductions: ClassVar[Mapping[str, Reduction]] = {"match": SUM, "label": SUM, "negatives": SUM, "all": SUM}
    normalizer_names: ClassVar[tuple[str, ...]] = ("logits",)
    divisible: ClassVar[bool] = True

    weight: float = 5.0  # of the negatives

    def __post_init__(self) -> None:
        if not self.weight >= 0:
            raise UserError(f"weight must be at least 0, not {self.weight}")

    def check(self, target: Target) -> None:
        if target.soft:
            raise UserError(
                f"the form active_complementary tells matches from the rest, and the target {type(target).__name__} "
                "gives everybody a share; choose one_hot, duplicates or labels"
            )

    def normalizers(self, logits: Tensor, scores: Scores | None) -> Statistics:
        rows, cols = ({"logits": torch.logsumexp(logits, dim)} for dim in (1, 0))
        return Statistics(rows, cols, (logits.shape[0], logits.shape[1]))

    def partial(self, logits: Tensor, target: TargetBlock, normalizers: Statistics | None = None) -> Statistics:
        assert normalizers is not None
        hard = target.hard
        by_row = _reduced(logits - normalizers.rows["logits"][:, None], target.by_row, hard.by_row, 1)
        by_col = _reduced(logits - normalizers.cols["logits"], target.by_col, hard.by_col, 0)
        return Statistics(by_row, by_col, (logits.shape[0], logits.shape[1]))

    def finish(self, statistics: Statistics) -> Tensor:
        def one_direction(stats: Mapping[str, Tensor]) -> Tensor:
            negatives = stats["negatives"] / stats["all"] ** (1 - stats["label"])
            return (stats["match"] + self.weight * negatives).mean()

        return (one_direction(statistics.rows) + one_direction(statistics.cols)) / 2


def _reduced(log_q: Tensor, p: Tensor | None, matches: Tensor | None, dim: int) -> dict[str, Tensor]:
    tangent = log_q.exp().tan()
    total = tangent.sum(dim)
    negatives = total if matches is None else tangent.masked_fill(matches > 0, 0.0).sum(dim)
    nothing = torch.zeros_like(total)
    match = nothing if p is None else (p * -log_q).sum(dim)
    return {"match": match, "label": nothing if p is None else p.sum(dim), "negatives": negatives, "all": total}
