"""SoftCLIP: softened targets instead of one-to-one matches, and a second look at the negatives alone.

Gao et al. 2024, "SoftCLIP: Softer Cross-Modal Alignment Makes CLIP Stronger", Eq. 6-16.

    L = L_soft + λ L_re + μ L_CLIP                                                           (16)

    L_soft = ½ [ mean_i D(p̃_i(R,R), p_i(I,T)) + mean_i D(p̃_i(A,A), p_i(T,I)) ]              (10, 11)
    L_re   = the same with the matches left out of all four and the rest renormalised        (12 - 14)
    p̃ = (1 - β) y + β p        D(p, q) = ½ (KL(p‖q) + KL(q‖p))                               (8, 9, 15)

image, text, regions, tags [N, d] points; p_ij softmax of exp(t)·s, one t for all of them; y the matches; β = 0.3,
λ = `relation_weight` = 1, μ = `clip_weight` = 0.5.
Ablations of the paper are settings: another guide (`image_text`, side data), a mix of two as in Fig. 5a,
γ (L_soft + λ L_re)(guide) + (1 - γ) (...)(second), kl or js for D, λ = 0. The paper is silent on gradients through
the target; here they flow, unless `guide.stop_gradient`. Matches may be more than the diagonal (`match`).
Guides that are trained with the model know nothing at first: `warmup` is a share of the run with L_CLIP alone, `ramp`
one in which β then rises to its value. What the guide knows is logged (`targets/guide_health.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from torch import Tensor

from equipoise.forms import CrossEntropy, Divergence, Form, OnHardTarget, StackedForms
from equipoise.kernels import Scoring
from equipoise.objectives.clip import CLIP
from equipoise.objectives.objective import Objective
from equipoise.settings.choice import choice, choose_by_name
from equipoise.targets import GUIDES, HARD_TARGETS, Guide, HardTarget, Softened, Target
from equipoise.targets.guide_health import guide_facts
from equipoise.targets.softened import SoftenedBy, ramped
from equipoise.targets.weighted import pair_weights_of, weighted_pairs
from equipoise.types import Batch, Embeddings, Loss, StepInfo, UserError


@dataclass(frozen=True)
class SoftCLIP(Objective):
    cites: ClassVar[tuple[str, ...]] = ("gao2024softclip", "gao2022pyramidclip", "radford2021clip")

    beta: float = 0.3  # how far targets are softened
    relation_weight: float = 1.0  # λ, of the negatives alone
    clip_weight: float = 0.5  # μ, of CLIP's loss
    divergence: str = "symmetric_kl"  # kl, symmetric_kl, js
    guide: Guide = choice(GUIDES, "regions_tags")  # what says who is alike
    gamma: float = 1.0  # the first guide's part in the soft losses
    second: Guide = choice(GUIDES, "image_text")  # another guide, for 1 - gamma
    match: HardTarget = choice(HARD_TARGETS, "one_hot")  # who matches whom, before that is softened
    warmup: float = 0.0  # share of the run, at its start, that is plain CLIP
    ramp: float = 0.0  # share of the run in which β rises from 0, linearly
    impl: str = "auto"  # how the loss is computed: auto, eager, tiled, fused

    def __post_init__(self) -> None:
        choose_by_name(self)
        for name in ("warmup", "ramp"):
            if not 0 <= getattr(self, name) <= 1:
                raise UserError(f"{name} must be a share of the run, from 0 to 1, not {getattr(self, name)}")
        for name in ("relation_weight", "clip_weight"):
            if getattr(self, name) < 0:
                raise UserError(f"{name} must be at least 0, not {getattr(self, name)}")
        Divergence(self.divergence)
        self._targets()

    @property
    def divisible(self) -> bool:
        return all(target.divisible for _, target in self._targets())

    @property
    def weighs_pairs(self) -> bool:
        return type(self) is SoftCLIP

    @property
    def needs(self) -> tuple[str, ...]:
        roles = (role for _, target in self._targets() for role in target.needs)
        return tuple(dict.fromkeys(("image", "text", *roles)))

    @property
    def trains(self) -> tuple[str, ...]:
        roles = (role for _, target in self._targets() for role in target.trains)
        return tuple(dict.fromkeys(("image", "text", *roles)))

    def loss(self, embeddings: Embeddings, batch: Batch | None, scoring: Scoring) -> Loss:
        moment = StepInfo(step=2, steps=2) if batch is None else batch.moment  # outside a run: as at its end
        if moment.progress < self.warmup:
            return self._warming(CLIP(self.match, impl=self.impl).loss(embeddings, batch, scoring), embeddings)

        def compare(target: Target, form: Form) -> Tensor:
            weighed = weighted_pairs(target, pair_weights_of(batch))
            return scoring.contrast(embeddings.image, embeddings.text, target=weighed, form=form, impl=self.impl)

        beta = ramped(self.beta, moment, self.ramp, self.warmup)
        (weight, first), *second = (
            (weight, scoring.bind(replace(target, beta=beta), embeddings, batch)) for weight, target in self._targets()
        )
        losses = compare(first, self._form(with_matches=True))
        soft = weight * losses[: 2 if self.relation_weight else 1]
        for weight, target in second:
            soft = soft + weight * compare(target, self._form(with_matches=False))
        terms = dict(zip(("soft", "relation"), soft, strict=False))
        total = terms["soft"]
        if self.relation_weight:
            total = total + self.relation_weight * terms["relation"]
        if self.clip_weight:
            terms["contrastive"] = losses[-1]
            total = total + self.clip_weight * terms["contrastive"]
        assert isinstance(first, SoftenedBy)
        weights = {"relation": self.relation_weight, "contrastive": self.clip_weight}
        return Loss(total, terms, partial(guide_facts, first, batch, scoring.gather()), weights)

    def _warming(self, plain: Loss, embeddings: Embeddings) -> Loss:
        """The loss of plain CLIP, in which guides have a part of zero: several processes wait for every gradient."""
        guides = [points for role, points in embeddings.roles().items() if role in self.trains[2:]]
        return replace(plain, total=plain.total + 0 * sum(points.sum() for points in guides)) if guides else plain

    def _targets(self) -> list[tuple[float, Softened]]:
        both = ((self.gamma, self.guide), (1 - self.gamma, self.second))
        if not 0 <= self.gamma <= 1:
            raise UserError(f"gamma must be from 0 to 1, not {self.gamma}")
        return [(weight, Softened(self.beta, self.match, guide)) for weight, guide in both if weight]

    def _form(self, *, with_matches: bool) -> StackedForms:
        """The soft terms of one guide and, `with_matches`, the hard one, all of the same logits."""
        relation = (Divergence(self.divergence, among="negatives"),) if self.relation_weight else ()
        hard = (OnHardTarget(CrossEntropy()),) if with_matches and self.clip_weight else ()
        return StackedForms((Divergence(self.divergence), *relation, *hard))
