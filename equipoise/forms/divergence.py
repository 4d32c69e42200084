"""Divergences between target and prediction, each a distribution over a row (and over a column).

Gao et al. 2024 (SoftCLIP): KL, Eq. 10-11; negatives alone, Eq. 12-14; symmetric KL, Eq. 15. JS: Lin 1991.

    L = ½ [ mean_i Σ_j D(p_ij, q_ij) + mean_j Σ_i D(p'_ij, q'_ij) ]        q = softmax_j z, q' = softmax_i z

    kl            D(p, q) = p (log p - log q)
    symmetric_kl  D(p, q) = ½ (p - q)(log p - log q)
    js            D(p, q) = ½ [ p (log p - log m) + q (log q - log m) ],  m = (p + q) / 2

z [N, M] logits exp(t)·s(u, v); p, p' the target by row and by column. With `among = "negatives"` both distributions
leave the matches out and are renormalised (Eq. 12); since scores are all that is left of a softened target there, β
plays no part. Rows without negatives (a batch of one) cost nothing. A row whose sample has no guide keeps its hard
target, to which only KL is finite: it costs KL whatever the divergence, and nothing among negatives.
Everything is a difference of logarithms, so nothing underflows; the prediction's gradient is that of `cross_entropy`
for kl, which differs by the target's entropy. The symmetric form and the negatives need a target that gives every
pair a share. The paper found JS unstable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from equipoise.forms.form import SUM, Form, Reduction, Statistics
from equipoise.targets import Scores, Target, TargetBlock, log_zero
from equipoise.types import UserError


def _kl(log_p: Tensor, log_q: Tensor) -> Tensor:
    return log_p.exp() * (log_p - log_q)


def _symmetric_kl(log_p: Tensor, log_q: Tensor) -> Tensor:
    return (log_p.exp() - log_q.exp()) * (log_p - log_q) / 2


def _js(log_p: Tensor, log_q: Tensor) -> Tensor:
    log_m = torch.logaddexp(log_p, log_q) - math.log(2)
    return (log_p.exp() * (log_p - log_m) + log_q.exp() * (log_q - log_m)) / 2


DIVERGENCES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {"kl": _kl, "symmetric_kl": _symmetric_kl, "js": _js}
AMONG = ("all", "negatives")


@dataclass(frozen=True)
class Divergence(Form):
    cites: ClassVar[tuple[str, ...]] = ("gao2024softclip",)
    reductions: ClassVar[Mapping[str, Reduction]] = {"cost": SUM}
    divisible: ClassVar[bool] = True
    weighable: ClassVar[bool] = True

    kind: str = "symmetric_kl"  # kl, symmetric_kl, js
    among: str = "all"  # all, or negatives alone

    def __post_init__(self) -> None:
        if self.kind not in DIVERGENCES:
            raise UserError(f"kind must be one of {', '.join(DIVERGENCES)}, not {self.kind!r}")
        if self.among not in AMONG:
            raise UserError(f"among must be one of {', '.join(AMONG)}, not {self.among!r}")

    @property
    def normalizer_names(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("logits",) if self.among == "all" else ("logits", "scores")

    def check(self, target: Target) -> None:
        if not target.soft and (self.among == "negatives" or self.kind == "symmetric_kl"):
            what = "the divergence among negatives" if self.among == "negatives" else "the symmetric KL"
            raise UserError(f"{what} needs a target that gives everybody a share; choose a smoothed or softened one")

    def normalizers(self, logits: Tensor, scores: Scores | None) -> Statistics:
        shape = (logits.shape[0], logits.shape[1])
        if self.among == "all":
            return Statistics({"logits": torch.logsumexp(logits, 1)}, {"logits": torch.logsumexp(logits, 0)}, shape)
        assert scores is not None
        rest = _without(logits, scores.positive)
        rows = {"logits": torch.logsumexp(rest, 1), "scores": _log_sum(scores.by_row, scores.positive, 1)}
        cols = {"logits": torch.logsumexp(rest, 0), "scores": _log_sum(scores.by_col, scores.positive, 0)}
        return Statistics(rows, cols, shape)

    def partial(self, logits: Tensor, target: TargetBlock, normalizers: Statistics | None = None) -> Statistics:
        assert normalizers is not None
        log_q = logits - normalizers.rows["logits"][:, None], logits - normalizers.cols["logits"]
        log_p = target.log_shares(logits) if self.among == "all" else _among_negatives(target.scores, normalizers)
        positive = target.scores.positive if self.among == "negatives" and target.scores else None
        known = _known(target.scores)
        rows, cols = (
            self._cost(p, q, positive, guided).sum(dim)
            for p, q, guided, dim in zip(log_p, log_q, known, (1, 0), strict=True)
        )
        return Statistics({"cost": rows}, {"cost": cols}, (logits.shape[0], logits.shape[1]))

    def finish(self, statistics: Statistics) -> Tensor:
        return (statistics.rows["cost"].mean() + statistics.cols["cost"].mean()) / 2

    def _cost(self, log_p: Tensor, log_q: Tensor, excluded: Tensor | None, guided: Tensor | None) -> Tensor:
        if excluded is not None:  # where both are equal the divergence is 0
            log_p, log_q = log_p.masked_fill(excluded, 0), log_q.masked_fill(excluded, 0)
        if guided is None:
            return DIVERGENCES[self.kind](log_p, log_q)
        cost = DIVERGENCES[self.kind](torch.where(guided, log_p, log_q), log_q)
        return cost if self.among == "negatives" else cost + _kl(log_p, log_q).masked_fill(guided, 0)


def _known(scores: Scores | None) -> tuple[Tensor | None, Tensor | None]:
    """Bool [R, 1] and [1, C]: rows and columns that have a guide."""
    if scores is None or scores.known is None:
        return None, None
    return scores.known[0][:, None], scores.known[1][None]


def _without(values: Tensor, excluded: Tensor | None) -> Tensor:
    return values if excluded is None else values.masked_fill(excluded, log_zero(values))


def _log_sum(values: Tensor, excluded: Tensor | None, dim: int) -> Tensor:
    return torch.logsumexp(_without(values, excluded), dim)


def _among_negatives(scores: Scores | None, normalizers: Statistics) -> tuple[Tensor, Tensor]:
    assert scores is not None
    return scores.by_row - normalizers.rows["scores"][:, None], scores.by_col - normalizers.cols["scores"]
