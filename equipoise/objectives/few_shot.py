"""Few-shot classification: images against the prompts of all classes and, beside it, four mixups of both.

Oh et al. 2023, "Geodesic Multi-Modal Mixup for Robust Fine-Tuning", App. A.2.

    L = L_class + (w_m² L_m² + w_V L_V + w_L L_L + w_VL L_VL) / epoch

L_class of `class_contrast.py`, the mixups of `mixup/class_mix.py`; weights, schedules and logit scales as
`mixup/base.py` has them. The text of a sample is the prompt of its class, so the text tower reads C prompts per step
and no captions. The paper sweeps weights over {0.01, ..., 0.5} and α over {0.2, 0.5} and states neither: these weights
are from the middle. With all of them 0 it is the paper's plain fine-tuning (FT).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from equipoise.data.source import CLASS_PROMPTS, CLASSES
from equipoise.heads import HeadConfig
from equipoise.kernels import Scoring
from equipoise.objectives.class_contrast import class_contrast
from equipoise.objectives.mixup.base import Mixing
from equipoise.objectives.mixup.class_mix import ClassMix
from equipoise.spaces import Space, hardness
from equipoise.types import Batch, Embeddings, Loss, UserError


@dataclass(frozen=True)
class FewShot(Mixing):
    cites: ClassVar[tuple[str, ...]] = ("oh2023geodesic", "radford2021clip", "khosla2020supcon")

    m2_weight: float = 0.1  # of m²-Mix
    v_weight: float = 0.1  # of V-Mix: images among themselves
    l_weight: float = 0.1  # of L-Mix: texts among themselves
    vl_weight: float = 0.1  # of VL-Mix: both at once
    alpha: tuple[float, float] = (0.5, 0.5)

    @property
    def needs(self) -> tuple[str, ...]:
        return ("image", "pivots", *self.scale_roles)

    @property
    def matches_classes(self) -> bool:
        return True

    @property
    def views(self) -> tuple[str, ...]:
        return (CLASS_PROMPTS,)

    @property
    def heads(self) -> Mapping[str, HeadConfig]:
        return self.scale_heads

    def loss(self, embeddings: Embeddings, batch: Batch | None, scoring: Scoring) -> Loss:
        image, pivots, labels = embeddings.image, _pivots(embeddings), class_numbers(batch)
        points, space, scoring = (image.detach(), pivots.detach()), scoring.space, scoring.without_bias()
        plain = class_contrast(image, pivots, labels, scoring, impl=self.impl)
        return self.with_mixes(
            Loss(plain, {"classes": plain}, lambda: _facts(*points, labels, space)),
            embeddings,
            batch,
            scoring,
            mix=ClassMix(image, pivots, labels, self.impl),
            hard=lambda lam: ClassMix(*points, labels).above(lam, space),
        )


def class_numbers(batch: Batch | None) -> Tensor:
    """The class of every sample [N] as the number of its prompt."""
    if batch is None or CLASSES not in batch.common or "label" not in batch.side:
        raise UserError(
            "few-shot classification looks at the class of every sample and at the prompts of all classes; give a "
            "batch of Batches(..., views=objective.views) beside its embeddings"
        )
    known, order = batch.common[CLASSES].sort()
    place = torch.searchsorted(known, batch.side["label"]).clamp(max=len(known) - 1)
    if bool((unknown := known[place] != batch.side["label"]).any()):
        first = int(batch.index[unknown][0])
        raise UserError(
            f"{int(unknown.sum())} of {len(unknown)} samples are of no class (record {first} is the first); leave them "
            'out: data.name = "few_shot" does'
        )
    return order[place]


def _pivots(embeddings: Embeddings) -> Tensor:
    if embeddings.pivots is None:
        raise UserError("few-shot classification compares images with the points of all classes; give pivots=...")
    return embeddings.pivots


def _facts(image: Tensor, pivots: Tensor, labels: Tensor, space: Space) -> dict[str, float]:
    found = hardness(image, pivots, space=space, match=labels)
    return {
        "batch/positive": float(found.positive.mean()),
        "batch/closest_class": float(found.closest.mean()),
        "batch/accuracy": float((found.positive > found.closest).double().mean()),
    }
