"""Symmetric cross-entropy between target and softmax over rows and over columns: InfoNCE, the loss of CLIP.

van den Oord et al. 2018, Eq. 4; Radford et al. 2021, Fig. 3.

    L = ½ [ mean_i Σ_j p_ij (lse_i - z_ij) + mean_j Σ_i p'_ij (lse_j - z_ij) ]

z [N, M] logits exp(t)·s(u, v); p, p' the target by row and by column; lse_i = log Σ_j exp z_ij, lse_j over rows.
Kept per row (and per column): lse, hit = Σ_j p_ij z_ij, mass = Σ_j p_ij (1 for a complete target).
The logarithm never sees a normalised probability, so nothing underflows. For a one-hot target this is open_clip's
`ClipLoss`; targets that do not depend on the model differ from the KL form by a constant only. `direction` keeps one
half alone, as a mean of its own: rows (each image among texts) or cols (each text among images).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from equipoise.forms.form import LOG_SUM_EXP, SUM, ClosedFormGrad, Reduction, Statistics
from equipoise.targets import TargetBlock
from equipoise.types import UserError

SHARES = {"both": (0.5, 0.5), "rows": (1.0, 0.0), "cols": (0.0, 1.0)}  # of the two halves


@dataclass(frozen=True)
class CrossEntropy(ClosedFormGrad):
    cites: ClassVar[tuple[str, ...]] = ("oord2018cpc", "radford2021clip")
    reductions: ClassVar[Mapping[str, Reduction]] = {"lse": LOG_SUM_EXP, "hit": SUM, "mass": SUM}
    divisible: ClassVar[bool] = True
    weighable: ClassVar[bool] = True

    direction: str = "both"  # both, rows (each image among texts), cols

    def __post_init__(self) -> None:
        if self.direction not in SHARES:
            raise UserError(f"direction must be one of {', '.join(SHARES)}, not {self.direction!r}")

    def partial(self, logits: Tensor, target: TargetBlock, normalizers: Statistics | None = None) -> Statistics:
        rows, cols = _reduce(logits, target.by_row, dim=1), _reduce(logits, target.by_col, dim=0)
        return Statistics(rows, cols, (logits.shape[0], logits.shape[1]))

    def finish(self, statistics: Statistics) -> Tensor:
        def one_direction(stats: Mapping[str, Tensor]) -> Tensor:
            return (stats["mass"] * stats["lse"] - stats["hit"]).mean()

        by_row, by_col = SHARES[self.direction]
        return by_row * one_direction(statistics.rows) + by_col * one_direction(statistics.cols)

    def grad(self, logits: Tensor, target: TargetBlock, statistics: Statistics) -> Tensor:
        rows, cols = statistics.rows, statistics.cols
        per_row, per_col = (share / n for share, n in zip(SHARES[self.direction], statistics.shape, strict=True))
        grad = (logits - rows["lse"][:, None]).exp_().mul_(rows["mass"][:, None] * per_row)
        grad += (logits - cols["lse"]).exp_().mul_(cols["mass"] * per_col)
        by_row, by_col = target.by_row, target.by_col
        if target.weights is not None:  # those of the statistics' masses, too
            by_row = None if by_row is None else by_row * target.weights[0][:, None]
            by_col = None if by_col is None else by_col * target.weights[1]
        if by_row is not None:
            grad.sub_(by_row, alpha=per_row)
        if by_col is not None:
            grad.sub_(by_col, alpha=per_col)
        return grad


def _reduce(logits: Tensor, target: Tensor | None, dim: int) -> dict[str, Tensor]:
    lse = torch.logsumexp(logits, dim)
    if target is None:
        return {"lse": lse, "hit": torch.zeros_like(lse), "mass": torch.zeros_like(lse)}
    return {"lse": lse, "hit": (target * logits).sum(dim), "mass": target.sum(dim)}
