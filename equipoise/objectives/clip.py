"""CLIP: images against texts of the same batch, both ways.

Radford et al. 2021, "Learning Transferable Visual Models From Natural Language Supervision", Fig. 3.

    L = form(exp(t)·s(image_i, text_j), target)        (paper: cross-entropy, one-hot)

image, text [N, d] points of the space; exp(t) the logit scale. With the defaults on a sphere this is the paper's loss
and open_clip's `ClipLoss`; the space, the target and the form may each be exchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from equipoise.forms import FORMS, Form
from equipoise.kernels import Scoring
from equipoise.objectives.objective import Objective
from equipoise.settings.choice import choice, choose_by_name
from equipoise.targets import TARGETS, Target
from equipoise.targets.guide_health import guide_facts
from equipoise.targets.softened import SoftenedBy
from equipoise.targets.weighted import pair_weights_of, weighted_pairs
from equipoise.types import Batch, Embeddings, Loss


@dataclass(frozen=True)
class CLIP(Objective):
    cites: ClassVar[tuple[str, ...]] = ("radford2021clip",)

    target: Target = choice(TARGETS, "one_hot")  # who matches whom
    form: Form = choice(FORMS, "cross_entropy")  # how similarity is held against the target
    impl: str = "auto"  # how the loss is computed: auto, eager, tiled, fused

    def __post_init__(self) -> None:
        choose_by_name(self)
        self.form.check(self.target)

    @property
    def learned_bias(self) -> float | None:
        return self.form.learned_bias

    @property
    def divisible(self) -> bool:
        return self.target.divisible and self.form.divisible

    @property
    def matches_classes(self) -> bool:
        return type(self) is CLIP and self.target.matches_classes

    @property
    def weighs_pairs(self) -> bool:
        return type(self) is CLIP and self.form.weighable

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(("image", "text", *self.target.needs)))

    @property
    def trains(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(("image", "text", *self.target.trains)))

    def loss(self, embeddings: Embeddings, batch: Batch | None, scoring: Scoring) -> Loss:
        bound = scoring.bind(self.target, embeddings, batch)
        target = weighted_pairs(bound, pair_weights_of(batch))
        contrastive = scoring.contrast(embeddings.image, embeddings.text, target=target, form=self.form, impl=self.impl)
        facts = partial(guide_facts, bound, batch, scoring.gather()) if isinstance(bound, SoftenedBy) else dict
        return Loss(contrastive, {"contrastive": contrastive}, facts)
