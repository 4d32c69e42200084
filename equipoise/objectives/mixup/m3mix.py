"""m³-Mix: an objective and, beside it, four mixups of its points; with one weight alone, m²-, V-, L- or VL-Mix.

Oh et al. 2023, "Geodesic Multi-Modal Mixup for Robust Fine-Tuning", App. A.1, App. B (Algorithm 1).

    L = L_of + (w_m² L_m² + w_V L_V + w_L L_L + w_VL L_VL) / epoch                         (footnote 9)

L_of any objective that compares images with texts (paper: CLIP); L_m² of `m2mix.py`; L_V, L_L, L_VL of
`unimodal.py`. Weights, schedules and logit scales are those of `base.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from torch import Tensor

from equipoise.heads import HeadConfig
from equipoise.kernels import Scoring
from equipoise.objectives.clip import CLIP
from equipoise.objectives.coca import CoCa
from equipoise.objectives.cyclip import CyCLIP
from equipoise.objectives.declip import DeCLIP
from equipoise.objectives.mixup.base import Mixing
from equipoise.objectives.mixup.m2mix import READINGS, m2mix, mixed_above
from equipoise.objectives.mixup.unimodal import v_mix, vl_mix
from equipoise.objectives.objective import Objective
from equipoise.objectives.slip import SLIP
from equipoise.objectives.softclip import SoftCLIP
from equipoise.settings.choice import choice, choose_by_name
from equipoise.targets.weighted import pair_weights_of
from equipoise.types import Batch, Embeddings, Loss, UserError

BASES: dict[str, type[Objective]] = {
    "clip": CLIP,
    "softclip": SoftCLIP,
    "slip": SLIP,
    "declip": DeCLIP,
    "cyclip": CyCLIP,
    "coca": CoCa,
}


@dataclass(frozen=True)
class M3Mix(Mixing):
    cites: ClassVar[tuple[str, ...]] = ("oh2023geodesic",)

    of: Objective = choice(BASES, "clip")  # the objective that it is added to
    reading: str = READINGS[0]  # of m², one of READINGS
    original_negatives: bool = True  # in V, L and VL

    def __post_init__(self) -> None:
        choose_by_name(self)
        super().__post_init__()
        if self.reading not in READINGS:
            raise UserError(f"reading must be one of {', '.join(READINGS)}, not {self.reading!r}")

    @property
    def mixes(self) -> bool:
        return self.of.mixes or super().mixes

    @property
    def weighs_pairs(self) -> bool:
        return type(self) is M3Mix and self.of.weighs_pairs

    @property
    def needs(self) -> tuple[str, ...]:
        return (*self.of.needs, *self.scale_roles)

    @property
    def trains(self) -> tuple[str, ...]:
        return (*self.of.trains, *self.scale_roles)

    @property
    def views(self) -> tuple[str, ...]:
        return self.of.views

    @property
    def heads(self) -> Mapping[str, HeadConfig]:
        return {**self.of.heads, **self.scale_heads}

    @property
    def learned_bias(self) -> float | None:
        return self.of.learned_bias

    def loss(self, embeddings: Embeddings, batch: Batch | None, scoring: Scoring) -> Loss:
        image, text = embeddings.image, embeddings.text
        points, space = (image.detach(), text.detach()), scoring.space
        return self.with_mixes(
            self.of.loss(embeddings, batch, scoring),
            embeddings,
            batch,
            scoring,
            mix=partial(self._term, image, text, pair_weights_of(batch)),
            hard=lambda lam: mixed_above(*points, lam, space=space, reading=self.reading),
        )

    def _term(
        self, image: Tensor, text: Tensor, weights: Tensor | None, term: str, share: float, scoring: Scoring
    ) -> Tensor:
        mix: Callable[..., Tensor]
        if term == "m2":
            mix = partial(m2mix, reading=self.reading)
        else:
            mix = partial(vl_mix if term == "vl" else v_mix, original_negatives=self.original_negatives)
        rows, cols = (text, image) if term == "l" else (image, text)
        return mix(rows, cols, share, scoring, weights=weights, impl=self.impl)
