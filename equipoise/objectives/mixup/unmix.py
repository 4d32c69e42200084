"""Un-Mix: an objective of the pictures as they are and, beside it, the loss of mixed ones.

Shen et al. 2022, "Un-Mix: Rethinking Image Mixtures for Unsupervised Visual Representation Learning", §3, as a baseline
of Oh et al. 2023, "Geodesic Multi-Modal Mixup for Robust Fine-Tuning", App. A.1.

    L = L_of + w L_mix                                               (`pixels.py`), w = 1

L_of any objective that compares images with texts (Oh et al.: CLIP). The role image_mixed [N, d] is of mixed pictures,
one more pass of the image tower. The authors also cut rectangles out of the partner, in a share of the steps that is a
setting of theirs; Oh et al. mix whole pictures, and so does this. α = 1 is of the authors' code.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from equipoise.data.source import IMAGE_MIXED, IMAGE_PARTNER
from equipoise.heads import HeadConfig
from equipoise.kernels import Scoring
from equipoise.objectives.mixup.m3mix import BASES
from equipoise.objectives.mixup.pixels import check_alpha, mixed_loss, mixed_pictures, share_of
from equipoise.objectives.objective import Objective
from equipoise.settings.choice import choice, choose_by_name
from equipoise.targets.weighted import pair_weights_of
from equipoise.types import Batch, Embeddings, Loss, UserError


@dataclass(frozen=True)
class UnMix(Objective):
    cites: ClassVar[tuple[str, ...]] = ("shen2022unmix", "oh2023geodesic")

    of: Objective = choice(BASES, "clip")  # the objective of the pictures as they are
    mix_weight: float = 1.0  # of the mixed ones
    alpha: tuple[float, float] = (1.0, 1.0)  # of Beta(α, α), in the first step and in the last
    impl: str = "auto"  # how the loss is computed: auto, eager, tiled, fused

    def __post_init__(self) -> None:
        choose_by_name(self)
        check_alpha(self.alpha)
        if not self.mix_weight > 0:
            raise UserError(f"mix_weight must be above 0, not {self.mix_weight}")

    @property
    def weighs_pairs(self) -> bool:
        return type(self) is UnMix and self.of.weighs_pairs

    @property
    def needs(self) -> tuple[str, ...]:
        return (*self.of.needs, IMAGE_MIXED)

    @property
    def trains(self) -> tuple[str, ...]:
        return (*self.of.trains, IMAGE_MIXED)

    @property
    def views(self) -> tuple[str, ...]:
        return (*self.of.views, IMAGE_PARTNER)

    @property
    def heads(self) -> Mapping[str, HeadConfig]:
        return self.of.heads

    @property
    def learned_bias(self) -> float | None:
        return self.of.learned_bias

    def prepared(self, batch: Batch) -> Batch:
        return replace(batch, side={**batch.side, IMAGE_MIXED: mixed_pictures(batch, self.alpha)})

    def loss(self, embeddings: Embeddings, batch: Batch | None, scoring: Scoring) -> Loss:
        plain = self.of.loss(embeddings, batch, scoring)
        lam, points, weights = share_of(batch, self.alpha), embeddings.further[IMAGE_MIXED], pair_weights_of(batch)
        mixed = mixed_loss(points, embeddings.text, lam, scoring.without_bias(), weights=weights, impl=self.impl)
        total = plain.total + self.mix_weight * mixed
        terms, shares = {**plain.terms, "mixed": mixed}, {**plain.weights, "mixed": self.mix_weight}
        return Loss(total, terms, lambda: {**plain.facts(), "mix/share_pixels": lam}, shares)
