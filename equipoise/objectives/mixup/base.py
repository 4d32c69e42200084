"""Mixups beside an objective's own loss: the weight of each over time, and its logit scale.

Oh et al. 2023, "Geodesic Multi-Modal Mixup for Robust Fine-Tuning", App. A.1, App. B (Algorithm 1).

    L = L_own + (w_m² L_m² + w_V L_V + w_L L_L + w_VL L_VL) / epoch                        (footnote 9)

λ ~ Beta(α, α) anew for each term and step (`schedule.py`): α = 0.5 for m², 2 for the others. L_m² has a logit scale
exp(t₂) of its own, the others the model's. The paper sweeps weights over {0, 0.01, 0.1, 0.2, 0.3, 0.5} and states
none; these are of the released Flickr30k scripts, where m² counts twice (`m2mix.py`). There both scales are constants
(`m2_scale_learned = false`); the pseudo-code learns them, and so does this. A term whose weight is 0 costs nothing.
`m3mix.py` mixes pairs, `few_shot.py` images with the prompts of their classes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from equipoise.heads import HeadConfig, LogitScaleHead
from equipoise.kernels import Scoring
from equipoise.objectives.mixup.schedule import drawn_share, weight_at
from equipoise.objectives.objective import Objective
from equipoise.types import Batch, Embeddings, Loss, StepInfo, UserError

TERMS = ("m2", "v", "l", "vl")
Mix = Callable[[str, float, Scoring], Tensor]  # a term, its λ and how points are scored, to its loss
Hard = Callable[[float], Mapping[str, float]]  # λ of m² to what is logged of its negatives


@dataclass(frozen=True)
class Mixing(Objective):
    m2_weight: float = 0.02  # of m²-Mix
    v_weight: float = 0.05  # of V-Mix: images among themselves
    l_weight: float = 0.05  # of L-Mix: texts among themselves
    vl_weight: float = 0.1  # of VL-Mix: both at once
    per_epoch: bool = True  # divide these by the number of the epoch, from 1
    m2_alpha: tuple[float, float] = (0.5, 0.5)  # of Beta(α, α), in the first step and in the last
    alpha: tuple[float, float] = (2.0, 2.0)  # in V, L and VL
    m2_scale: float = 1 / 0.07  # exp(t₂), at the start where it is learned; 0 shares the model's
    m2_scale_learned: bool = True  # whether m²-Mix's own logit scale is trained
    impl: str = "auto"  # how the loss is computed: auto, eager, tiled, fused

    def __post_init__(self) -> None:
        for term in TERMS:
            if self.weight(term) < 0:
                raise UserError(f"{term}_weight must be at least 0, not {self.weight(term)}")
        for name in ("m2_alpha", "alpha"):
            if not all(0 < value < math.inf for value in getattr(self, name)):
                raise UserError(f"{name} must be two numbers above 0, not {list(getattr(self, name))}")
        if not 0 <= self.m2_scale < math.inf:
            raise UserError(f"m2_scale must be positive, or 0 to share the model's logit scale, not {self.m2_scale}")
        if self._learns_scale:
            LogitScaleHead.Config(self.m2_scale)

    @property
    def mixes(self) -> bool:
        return any(self.weight(term) for term in TERMS)

    def weight(self, term: str) -> float:
        value: float = getattr(self, f"{term}_weight")
        return value

    def share(self, moment: StepInfo, term: str) -> float:
        """λ of a term."""
        return drawn_share(moment, term, self.m2_alpha if term == "m2" else self.alpha)

    @property
    def scale_roles(self) -> tuple[str, ...]:
        """The role of m²'s own logit scale, where it is learned."""
        return LogitScaleHead.roles if self._learns_scale else ()

    @property
    def scale_heads(self) -> Mapping[str, HeadConfig]:
        return {"m2_scale": LogitScaleHead.Config(self.m2_scale)} if self._learns_scale else {}

    @property
    def _learns_scale(self) -> bool:
        return bool(self.m2_weight and self.m2_scale and self.m2_scale_learned)

    def with_mixes(
        self, plain: Loss, embeddings: Embeddings, batch: Batch | None, scoring: Scoring, mix: Mix, hard: Hard
    ) -> Loss:
        """The objective's own loss and, beside it, those of its mixups, which are softmaxes and learn no bias."""
        moment = StepInfo() if batch is None else batch.moment
        m2_scale = self._m2_log_scale(embeddings, scoring.log_scale)
        scorings = dict.fromkeys(TERMS, scoring.without_bias()) | {"m2": scoring.without_bias(m2_scale)}
        shares = {term: self.share(moment, term) for term in TERMS if self.weight(term)}
        mixed = {term: mix(term, share, scorings[term]) for term, share in shares.items()}
        now = weight_at(moment, self.per_epoch)
        weights = {term: now * self.weight(term) for term in mixed}
        weighted = [weights[term] * value for term, value in mixed.items()]

        def facts() -> dict[str, float]:
            found = {f"mix/share_{term}": share for term, share in shares.items()}
            if "m2" in shares:
                found["mix/logit_scale"] = math.exp(float(torch.as_tensor(m2_scale).detach()))
                found |= {f"mix/above_{side}": value for side, value in hard(shares["m2"]).items()}
            return {**plain.facts(), "mix/weight": now, **found}

        total = torch.stack([plain.total, *weighted]).sum()
        return Loss(total, {**plain.terms, **mixed}, facts, {**plain.weights, **weights})

    def _m2_log_scale(self, embeddings: Embeddings, log_scale: Tensor | float) -> Tensor | float:
        if not self.m2_scale:
            return log_scale
        if not self._learns_scale:
            return math.log(self.m2_scale)
        learned = embeddings.further.get(LogitScaleHead.roles[0])
        if learned is None:
            raise UserError(
                f"m² learns a logit scale of its own, which the embeddings do not have; build the model with the "
                f"objective's heads, give further={{'{LogitScaleHead.roles[0]}': ...}}, or set "
                "m2_scale_learned to false"
            )
        return learned.mean()
