"""TCL: ALBEF with two more contrasts, of each modality with itself and of samples with their parts.

Yang et al. 2022, "Vision-Language Pre-Training with Triple Contrastive Learning", §3, and their code.

    L = L_ITA + L_ITM + L_MLM               L_ITM and L_MLM as in `albef.py`

    L_ITA = [ CMA + w₁ IMC + w₂ LMI ] / (1 + w₁ + w₂)                 w = 1 each: the mean of the authors' six terms
    CMA   cross-modal alignment          ½ (L_i2t + L_t2i) with ALBEF's soft targets       momentum_contrast.py
    IMC   in-modal contrast              ½ (L_i2i + L_t2t), one-hot targets                the same
    LMI   local mutual information       ½ (image with its pooled patches + text with its words)  local_contrast.py

The moving average of the weights sees another view of the image, which the authors augment more strongly; here both
are drawn alike (`[augment]`). Patches and words are those of the moving average. Pooled patches are mapped back to the
space, which the authors leave out (`heads/local_points.py`). Parts of all processes are contrasted, theirs are those of
one. Weights of pairs count as in ALBEF; IMC and LMI look at one modality, of which a wrong pairing says nothing. Every
contrast is of the run's space, temperature included: Sun & Li 2024, App. F, put PS(128, 2) in all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from torch import Tensor

from equipoise.data.source import IMAGE_VIEW2
from equipoise.heads import HeadConfig, LocalPoints
from equipoise.kernels import Scoring
from equipoise.objectives.albef import ALBEF
from equipoise.objectives.local_contrast import local_contrast
from equipoise.objectives.momentum_contrast import momentum_contrast
from equipoise.settings.bounds import bounded
from equipoise.types import MOMENTUM, Batch, Embeddings, UserError

LOCAL = tuple(f"{MOMENTUM}{role}" for role in LocalPoints.roles)


@dataclass(frozen=True)
class TCL(ALBEF):
    in_modal_weight: float = 1.0  # of each modality with itself
    local_weight: float = 1.0  # of samples with their parts
    local_side: int = bounded(4, 1, 2**10)  # patches are pooled to so many in a row

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("in_modal_weight", "local_weight"):
            if not getattr(self, name) >= 0:
                raise UserError(f"{name} must be at least 0, not {getattr(self, name)}")

    @property
    def cites(self) -> tuple[str, ...]:
        return ("yang2022tcl", *super().cites)

    @property
    def weighs_pairs(self) -> bool:
        return type(self) is TCL

    @property
    def needs(self) -> tuple[str, ...]:
        return (*super().needs, *(LOCAL if self.local_weight else ()))

    @property
    def views(self) -> tuple[str, ...]:
        return (IMAGE_VIEW2, *super().views)

    @property
    def heads(self) -> Mapping[str, HeadConfig]:
        local = {"local": LocalPoints.Config(self.local_side)} if self.local_weight else {}
        return {**super().heads, **local}

    def taught(self, batch: Batch) -> Batch:
        if IMAGE_VIEW2 not in batch.side:
            raise UserError(
                f"the objective looks at {IMAGE_VIEW2}, which the batch does not hold; make it with "
                "Batches(..., views=objective.views)"
            )
        return replace(batch, images=batch.side[IMAGE_VIEW2])

    def _contrasts(
        self, embeddings: Embeddings, alpha: float, scoring: Scoring, of_pairs: Tensor | None
    ) -> dict[str, Tensor]:
        terms = super()._contrasts(embeddings, alpha, scoring, of_pairs)
        image, text, further = embeddings.image, embeddings.text, embeddings.further
        seen, told = embeddings.momentum_image, embeddings.momentum_text
        assert seen is not None
        assert told is not None
        if self.in_modal_weight:
            compare = partial(momentum_contrast, scoring=scoring, impl=self.impl)
            images, texts = (further.get(f"{role}_queue") for role in ("image", "text"))
            terms["in_modal"] = (compare(image, seen, images) + compare(text, told, texts)) / 2
        if self.local_weight:
            patches, words, real = (further[role] for role in LOCAL)
            of_images, of_texts = ((image, patches, None), (text, words, real))
            terms["local"] = (local_contrast(*of_images, scoring) + local_contrast(*of_texts, scoring)) / 2
        return terms

    def _shares(self) -> dict[str, float]:
        weights = {"contrastive": 1.0, "in_modal": self.in_modal_weight, "local": self.local_weight}
        return {name: weight / sum(weights.values()) for name, weight in weights.items()}
