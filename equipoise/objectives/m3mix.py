"""m³-Mix: an objective and, beside it, four mixups of its points; with one weight alone, m²-, V-, L- or VL-Mix.

Oh et al. 2023, "Geodesic Multi-Modal Mixup for Robust Fine-Tuning", App. A.1, App. B (Algorithm 1).

    L = L_of + (w_m² L_m² + w_V L_V + w_L L_L + w_VL L_VL) / epoch                         (footnote 9)

L_of any objective that compares images with texts (paper: CLIP); L_m² of `m2mix.py` with a temperature t₂ of its own;
L_V, L_L, L_VL of `unimodal_mix.py` with the model's. λ ~ Beta(α, α) anew for each term and step (`mix_schedule.py`):
α = 0.5 for m², 2 for the others. The paper sweeps weights over {0, 0.01, 0.1, 0.2, 0.3, 0.5} and states none; these
are of the released Flickr30k scripts, where m² counts twice (`m2mix.py`). There both temperatures are constants
(`m2_scale_learned = false`); the pseudo-code learns them, and so does this. A term whose weight is 0 costs nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from equipoise.choice import choice
from equipoise.heads import HeadConfig, OwnScale
from equipoise.objectives.clip import CLIP
from equipoise.objectives.declip import DeCLIP
from equipoise.objectives.m2mix import READINGS, m2mix, mixed_above
from equipoise.objectives.mix_schedule import drawn_share, weight_at
from equipoise.objectives.objective import Objective
from equipoise.objectives.slip import SLIP
from equipoise.objectives.softclip import SoftCLIP
from equipoise.objectives.unimodal_mix import v_mix, vl_mix
from equipoise.spaces import Space
from equipoise.types import Batch, Embeddings, Loss, Moment, UserError

BASES: dict[str, type[Objective]] = {"clip": CLIP, "softclip": SoftCLIP, "slip": SLIP, "declip": DeCLIP}
TERMS = ("m2", "v", "l", "vl")


@dataclass(frozen=True)
class M3Mix(Objective):
    cites: ClassVar[tuple[str, ...]] = ("oh2023geodesic",)

    of: Objective = choice(BASES, "clip")
    m2_weight: float = 0.02
    v_weight: float = 0.05
    l_weight: float = 0.05
    vl_weight: float = 0.1
    per_epoch: bool = True  # divide these by the number of the epoch, from 1
    reading: str = READINGS[0]  # of m², one of READINGS
    original_negatives: bool = True  # in V, L and VL
    m2_alpha: tuple[float, float] = (0.5, 0.5)  # of Beta(α, α), in the first step and in the last
    alpha: tuple[float, float] = (2.0, 2.0)  # in V, L and VL
    m2_scale: float = 1 / 0.07  # exp(t₂), at the start where it is learned; 0 shares the model's
    m2_scale_learned: bool = True
    impl: str = "auto"

    def __post_init__(self) -> None:
        for term in TERMS:
            if getattr(self, f"{term}_weight") < 0:
                raise UserError(f"{term}_weight must be at least 0, not {getattr(self, f'{term}_weight')}")
        if self.reading not in READINGS:
            raise UserError(f"reading must be one of {', '.join(READINGS)}, not {self.reading!r}")
        for name in ("m2_alpha", "alpha"):
            if not all(0 < value < math.inf for value in getattr(self, name)):
                raise UserError(f"{name} must be two numbers above 0, not {list(getattr(self, name))}")
        if not 0 <= self.m2_scale < math.inf:
            raise UserError(f"m2_scale must be positive, or 0 to share the model's temperature, not {self.m2_scale}")
        if self._learns_scale:
            OwnScale.Config(self.m2_scale)

    @property
    def _learns_scale(self) -> bool:
        return bool(self.m2_weight and self.m2_scale and self.m2_scale_learned)

    @property
    def mixes(self) -> bool:
        return self.of.mixes or any(getattr(self, f"{term}_weight") for term in TERMS)

    @property
    def needs(self) -> tuple[str, ...]:
        return (*self.of.needs, *(OwnScale.roles if self._learns_scale else ()))

    @property
    def trains(self) -> tuple[str, ...]:
        return (*self.of.trains, *(OwnScale.roles if self._learns_scale else ()))

    @property
    def views(self) -> tuple[str, ...]:
        return self.of.views

    @property
    def heads(self) -> Mapping[str, HeadConfig]:
        return {**self.of.heads, **({"m2_scale": OwnScale.Config(self.m2_scale)} if self._learns_scale else {})}

    @property
    def learned_bias(self) -> float | None:
        return self.of.learned_bias

    def __call__(
        self,
        embeddings: Embeddings,
        batch: Batch | None = None,
        *,
        log_scale: Tensor | float,
        space: Space,
        bias: Tensor | float | None = None,
    ) -> Loss:
        plain = self.of(embeddings, batch, log_scale=log_scale, space=space, bias=bias)
        moment = Moment() if batch is None else batch.moment
        own_scale = self._m2_log_scale(embeddings, log_scale)
        shares = {term: self.share(moment, term) for term in TERMS if getattr(self, f"{term}_weight")}
        image, text = embeddings.image, embeddings.text
        mixed = {
            term: self._term(term, image, text, share, space, own_scale if term == "m2" else log_scale)
            for term, share in shares.items()
        }
        weight = weight_at(moment, self.per_epoch)
        weighted = [weight * getattr(self, f"{term}_weight") * value for term, value in mixed.items()]

        def facts() -> dict[str, float]:
            found = {f"mix/share_{term}": share for term, share in shares.items()}
            if "m2" in shares:
                found["mix/temperature"] = math.exp(float(torch.as_tensor(own_scale).detach()))
                above = mixed_above(image.detach(), text.detach(), shares["m2"], space=space, reading=self.reading)
                found |= {f"mix/above_{side}": value for side, value in above.items()}
            return {**plain.facts(), "mix/weight": weight, **found}

        return Loss(torch.stack([plain.total, *weighted]).sum(), {**plain.terms, **mixed}, facts)

    def share(self, moment: Moment, term: str) -> float:
        """λ of a term."""
        return drawn_share(moment, term, self.m2_alpha if term == "m2" else self.alpha)

    def _term(
        self, term: str, image: Tensor, text: Tensor, share: float, space: Space, log_scale: Tensor | float
    ) -> Tensor:
        how: Callable[..., Tensor]
        if term == "m2":
            how = partial(m2mix, reading=self.reading)
        else:
            how = partial(vl_mix if term == "vl" else v_mix, original_negatives=self.original_negatives)
        rows, cols = (text, image) if term == "l" else (image, text)
        return how(rows, cols, share, space=space, log_scale=log_scale, impl=self.impl)

    def _m2_log_scale(self, embeddings: Embeddings, log_scale: Tensor | float) -> Tensor | float:
        if not self.m2_scale:
            return log_scale
        if not self._learns_scale:
            return math.log(self.m2_scale)
        learned = embeddings.further.get(OwnScale.roles[0])
        if learned is None:
            raise UserError(
                f"m² learns a temperature of its own, which the embeddings do not have; build the model with the "
                f"objective's heads, give further={{'{OwnScale.roles[0]}': ...}}, or set m2_scale_learned to false"
            )
        return learned.mean()
