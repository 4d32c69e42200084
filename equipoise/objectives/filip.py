"""FILIP: images and texts are as close as their patches and words; each way has a similarity of its own.

Yao et al. 2022, "FILIP: Fine-grained Interactive Language-Image Pre-Training", §3.1.

    L = ½ [ CE(exp(t)·s_rows(image_i, text_j)), each image among texts + CE(exp(t)·s_cols(image_i, text_j)), each text
            among images ]

s_rows is the mean over an image's patches of their closest word, s_cols the mean over a text's words of their closest
patch (spaces/token_sets.py). Points come from the readout `token_set`, but whatever gives sets will do, `class_tokens`
for instance. Padding counts in neither mean. In the code of Li et al. 2022, which FDT compares itself with, it does
(all 77 positions), and each sample is compared by the 16 of its tokens closest to its own pair; not so here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from equipoise.forms import CrossEntropy
from equipoise.kernels import Scoring
from equipoise.objectives.clip import CLIP
from equipoise.objectives.objective import Objective
from equipoise.settings.choice import choice, choose_by_name
from equipoise.spaces import TokenSets
from equipoise.targets import TARGETS, Target
from equipoise.types import Batch, Embeddings, Loss, UserError


@dataclass(frozen=True)
class FILIP(Objective):
    cites: ClassVar[tuple[str, ...]] = ("yao2022filip", "radford2021clip")

    target: Target = choice(TARGETS, "one_hot")  # who matches whom
    impl: str = "auto"  # how the loss is computed: auto, eager, tiled, fused

    def __post_init__(self) -> None:
        choose_by_name(self)
        self._one_way("rows")

    @property
    def divisible(self) -> bool:
        return self.target.divisible

    @property
    def weighs_pairs(self) -> bool:
        return type(self) is FILIP

    @property
    def needs(self) -> tuple[str, ...]:
        return self._one_way("rows").needs

    @property
    def trains(self) -> tuple[str, ...]:
        return self._one_way("rows").trains

    def loss(self, embeddings: Embeddings, batch: Batch | None, scoring: Scoring) -> Loss:
        if not isinstance(sets := scoring.space, TokenSets):
            raise UserError(
                f"FILIP compares sets of vectors, but {type(sets).__name__} has points of one; set space.name to "
                "token_sets, or objective.name to clip"
            )
        by_image, by_text = (
            self._one_way(way).loss(embeddings, batch, replace(scoring, space=replace(sets, toward=way))).total
            for way in ("rows", "cols")
        )
        terms = {"image_to_text": by_image, "text_to_image": by_text}
        return Loss((by_image + by_text) / 2, terms, weights=dict.fromkeys(terms, 0.5))

    def _one_way(self, direction: str) -> CLIP:
        return CLIP(self.target, CrossEntropy(direction), self.impl)
