"""CyCLIP: an objective, and images that lie to each other as their texts do.

Goel et al. 2022, "CyCLIP: Cyclic Contrastive Language-Image Pretraining", §2.2.

    L = L_of + λ₁ in_modal + λ₂ cross_modal                          λ₁ = λ₂ = 0.25, both terms in `consistency.py`

The paper's L_of is CLIP's loss. Its terms are sums over N² differences divided by N, not N², so they grow with the
batch; its authors say that this is meant. Their code gathers the points of other processes without gradients; here the
gradients are those of the whole batch. Its logit scale is at most 100, as everywhere here by default. Weights of pairs
count in L_of as they do there, and in both terms as `consistency.py` says. Mixups may stand beside it
(`mixup/m3mix.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from equipoise.heads import HeadConfig
from equipoise.kernels import Scoring
from equipoise.objectives.clip import CLIP
from equipoise.objectives.consistency import IMPLEMENTATIONS, consistency
from equipoise.objectives.declip import DeCLIP
from equipoise.objectives.objective import Objective
from equipoise.objectives.slip import SLIP
from equipoise.objectives.softclip import SoftCLIP
from equipoise.settings.choice import choice, choose_by_name
from equipoise.targets.weighted import pair_weights_of
from equipoise.types import Batch, Embeddings, Loss, UserError

BASES: dict[str, type[Objective]] = {"clip": CLIP, "softclip": SoftCLIP, "slip": SLIP, "declip": DeCLIP}


@dataclass(frozen=True)
class CyCLIP(Objective):
    cites: ClassVar[tuple[str, ...]] = ("goel2022cyclip",)

    of: Objective = choice(BASES, "clip")  # the objective that it is added to
    in_modal_weight: float = 0.25  # λ₁: images lie to each other as their texts do
    cross_modal_weight: float = 0.25  # λ₂: image i to text j as image j to text i
    impl: str = "auto"  # of the two terms

    def __post_init__(self) -> None:
        choose_by_name(self)
        for name in ("in_modal_weight", "cross_modal_weight"):
            if not getattr(self, name) >= 0:
                raise UserError(f"{name} must be at least 0, not {getattr(self, name)}")
        if self.impl not in IMPLEMENTATIONS:
            raise UserError(f"impl must be one of {', '.join(IMPLEMENTATIONS)} in cyclip, not {self.impl!r}")

    @property
    def divisible(self) -> bool:
        return self.of.divisible

    @property
    def mixes(self) -> bool:
        return self.of.mixes

    @property
    def weighs_pairs(self) -> bool:
        return type(self) is CyCLIP and self.of.weighs_pairs

    @property
    def learned_bias(self) -> float | None:
        return self.of.learned_bias

    @property
    def needs(self) -> tuple[str, ...]:
        return self.of.needs

    @property
    def trains(self) -> tuple[str, ...]:
        return self.of.trains

    @property
    def views(self) -> tuple[str, ...]:
        return self.of.views

    @property
    def heads(self) -> Mapping[str, HeadConfig]:
        return self.of.heads

    def loss(self, embeddings: Embeddings, batch: Batch | None, scoring: Scoring) -> Loss:
        plain = self.of.loss(embeddings, batch, scoring)
        weights = {"in_modal": self.in_modal_weight, "cross_modal": self.cross_modal_weight}
        if not any(weights.values()):
            return plain
        of_pairs = pair_weights_of(batch)
        image, text = embeddings.image, embeddings.text
        found = consistency(image, text, scoring.space, weights=of_pairs, impl=self.impl)._asdict()
        terms = {term: found[term] for term, weight in weights.items() if weight}
        total = plain.total
        for term, value in terms.items():
            total = total + weights[term] * value
        return Loss(total, {**plain.terms, **terms}, plain.facts, {**plain.weights, **weights})
