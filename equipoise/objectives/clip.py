"""CLIP: images against texts of the same batch, both ways.

Radford et al. 2021, "Learning Transferable Visual Models From Natural Language Supervision", Fig. 3.

    L = form(exp(t)·s(image_i, text_j), target)        (paper: cross-entropy, one-hot)

image, text [N, d] points of the space; t the log-temperature. With the defaults on a sphere this is the paper's loss
and open_clip's `ClipLoss`; the space, the target and the form may each be exchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from equipoise.forms import FORMS, CrossEntropy, Form
from equipoise.kernels import contrast
from equipoise.objectives.objective import Objective
from equipoise.settings.choice import choice
from equipoise.spaces import Space
from equipoise.targets import TARGETS, Target
from equipoise.targets.weighted import with_pair_weights
from equipoise.types import Batch, Embeddings, Loss


@dataclass(frozen=True)
class CLIP(Objective):
    cites: ClassVar[tuple[str, ...]] = ("radford2021clip",)

    target: Target = choice(TARGETS, "one_hot")
    form: Form = choice(FORMS, "cross_entropy")
    impl: str = "auto"

    def __post_init__(self) -> None:
        self.form.check(self.target)

    @property
    def learned_bias(self) -> float | None:
        return self.form.learned_bias

    @property
    def divisible(self) -> bool:
        return self.target.divisible and self.form.divisible

    @property
    def weighs_pairs(self) -> bool:
        return type(self) is CLIP and isinstance(self.form, CrossEntropy) and not self.target.guided

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(("image", "text", *self.target.needs)))

    @property
    def trains(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(("image", "text", *self.target.trains)))

    def __call__(
        self,
        embeddings: Embeddings,
        batch: Batch | None = None,
        *,
        log_scale: Tensor | float,
        space: Space,
        bias: Tensor | float | None = None,
    ) -> Loss:
        contrastive = contrast(
            embeddings.image,
            embeddings.text,
            space=space,
            target=with_pair_weights(self.target.bind(embeddings, batch, log_scale=log_scale, space=space), batch),
            form=self.form,
            log_scale=log_scale,
            bias=bias,
            impl=self.impl,
        )
        return Loss(contrastive, {"contrastive": contrastive})
