"""SoftCLIP's loss: targets softened by a guide (`objectives/softclip.py`).

`guide` by name (docs/targets.md lists them): `image_text` needs nothing but the features; `regions_tags` needs the
roles `regions` and `tags`, `momentum` needs `momentum_image` and `momentum_text`, `vectors` needs `image_vectors` and
`text_vectors`, all by keyword. A tensor `guide` [N, w] handed in with a batch, vectors of any other model, takes the
named guide's place: one for both sides, or a pair of them, for images and for texts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Unpack

from torch import Tensor

from equipoise.data.keep.weights import PAIR_WEIGHT
from equipoise.losses.checks import Given
from equipoise.losses.pair_loss import PairLoss, Settings
from equipoise.objectives import SoftCLIP
from equipoise.targets import GUIDES, Guide, HardTarget
from equipoise.types import UserError

VECTORS = GUIDES["vectors"]


class SoftCLIPLoss(PairLoss):
    def __init__(
        self,
        guide: str | Guide = "image_text",
        *,
        beta: float = 0.3,
        relation_weight: float = 1.0,
        clip_weight: float = 0.5,
        divergence: str = "symmetric_kl",
        gamma: float = 1.0,
        second: str | Guide = "image_text",
        match: str | HardTarget = "one_hot",
        warmup: float = 0.0,
        ramp: float = 0.0,
        impl: str = "auto",
        **settings: Unpack[Settings],
    ):
        if isinstance(guide, Tensor):
            raise UserError(
                "a guide of vectors belongs to a batch; hand it in with its features, as loss(..., guide=...)"
            )
        if (warmup or ramp) and not settings.get("steps"):
            raise UserError("warmup and ramp are shares of the run, whose length is not known; give steps=...")
        objective = SoftCLIP(
            beta, relation_weight, clip_weight, divergence, guide, gamma, second, match, warmup, ramp, impl  # type: ignore[arg-type]
        )  # fmt: skip
        super().__init__(objective, **settings)
        vectors = replace(objective.guide, by_row=VECTORS.by_row, by_col=VECTORS.by_col, across=False)
        self._by_vectors = replace(objective, guide=vectors)

    def forward(
        self,
        image_features: Tensor,
        text_features: Tensor,
        logit_scale: Tensor | float,
        logit_bias: Tensor | float | None = None,
        output_dict: bool = False,
        *,
        weights: Tensor | None = None,
        guide: Tensor | tuple[Tensor, Tensor] | None = None,
        **more: Tensor,
    ) -> Tensor | dict[str, Tensor]:
        if guide is None:
            return super().forward(
                image_features, text_features, logit_scale, logit_bias, output_dict, weights=weights, **more
            )
        images, texts = guide if isinstance(guide, tuple | list) and len(guide) == 2 else (guide, guide)
        more = {**more, VECTORS.by_row: images, VECTORS.by_col: texts}
        more = more if weights is None else {**more, PAIR_WEIGHT: weights}
        given = Given(image_features, text_features, logit_scale, more, self.space, self.projects)
        return self.answer(self.loss(self._by_vectors, given, logit_bias), logit_bias, output_dict)
