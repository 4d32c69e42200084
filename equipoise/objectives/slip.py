"""SLIP: CLIP, and SimCLR between two views of the images.

Mu et al. 2022, "SLIP: Self-supervision meets Language-Image Pre-training", §3.

    L = L_CLIP(image, text) + λ L_SimCLR(image, image_view2)                λ = 1, SimCLR's own temperature 0.1

The paper has a third view, the one CLIP sees, beside the two that SimCLR compares; here CLIP sees the first of two,
which saves one of three passes of the image tower. Views are random crops; the paper also changes colours and blurs.
Weights of pairs count in L_CLIP; SimCLR looks at images alone, of which a wrong caption says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from equipoise.data.source import IMAGE_VIEW2
from equipoise.forms import FORMS, Form
from equipoise.heads import HeadConfig, SimCLRHead
from equipoise.kernels import Scoring
from equipoise.objectives.clip import CLIP
from equipoise.objectives.objective import Objective
from equipoise.objectives.self_supervised import simclr
from equipoise.settings.bounds import bounded
from equipoise.settings.choice import choice, choose_by_name
from equipoise.targets import TARGETS, Target
from equipoise.types import Batch, Embeddings, Loss, UserError


@dataclass(frozen=True)
class SLIP(Objective):
    cites: ClassVar[tuple[str, ...]] = ("mu2022slip", "chen2020simclr", "radford2021clip")

    self_weight: float = 1.0  # λ, of SimCLR
    self_temperature: float = 0.1  # of SimCLR
    hidden: int = bounded(4096, 1, 2**16)  # widths of the projector
    width: int = bounded(256, 1, 2**16)  # of what it compares
    target: Target = choice(TARGETS, "one_hot")  # who matches whom
    form: Form = choice(FORMS, "cross_entropy")  # how similarity is held against the target
    impl: str = "auto"  # how the loss is computed: auto, eager, tiled, fused

    def __post_init__(self) -> None:
        choose_by_name(self)
        if self.self_weight < 0 or not self.self_temperature > 0 or min(self.hidden, self.width) < 1:
            raise UserError("self_weight must be at least 0; self_temperature, hidden and width above 0")
        self._clip()

    def _clip(self) -> CLIP:
        return CLIP(self.target, self.form, self.impl)

    @property
    def learned_bias(self) -> float | None:
        return self.form.learned_bias

    @property
    def weighs_pairs(self) -> bool:
        return type(self) is SLIP and self._clip().weighs_pairs

    @property
    def needs(self) -> tuple[str, ...]:
        return (*self._clip().needs, *SimCLRHead.roles)

    @property
    def trains(self) -> tuple[str, ...]:
        return (*self._clip().trains, *SimCLRHead.roles)

    @property
    def views(self) -> tuple[str, ...]:
        return (IMAGE_VIEW2,)

    @property
    def heads(self) -> Mapping[str, HeadConfig]:
        return {"simclr": SimCLRHead.Config(self.hidden, self.width)}

    def loss(self, embeddings: Embeddings, batch: Batch | None, scoring: Scoring) -> Loss:
        clip = self._clip().loss(embeddings, batch, scoring).total
        first, second = (embeddings.further[role] for role in SimCLRHead.roles)
        self_supervised = simclr(first, second, self.self_temperature)
        terms = {"contrastive": clip, "simclr": self_supervised}
        return Loss(clip + self.self_weight * self_supervised, terms, weights={"simclr": self.self_weight})
