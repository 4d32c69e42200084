"""CRCL: CLIP's contrast by the active complementary loss, each pair trusted as far as its label says.

Qin et al. 2023, "Cross-modal Active Complementary Learning with Self-refining Correspondence".

    L = active_complementary(exp(t)·s(image_i, text_j), y_i · target)

image, text [N, d] points of the space; y the labels that the data brings (`[clean]` with `evidence = "crcl"` and
`rule = "weights"`), 1 for data without any. The formula is in `forms/active_complementary.py`, how y is refined in
`analysis/evidence/crcl.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from equipoise.data.keep.weights import PAIR_WEIGHT
from equipoise.forms import ActiveComplementary
from equipoise.kernels import Scoring
from equipoise.objectives.objective import Objective
from equipoise.settings.choice import choice, choose_by_name
from equipoise.targets import HARD_TARGETS, HardTarget
from equipoise.targets.pair_labels import PairLabels
from equipoise.targets.target import Target
from equipoise.types import Batch, Embeddings, Loss


@dataclass(frozen=True)
class CRCL(Objective):
    cites: ClassVar[tuple[str, ...]] = ("qin2023crcl", "radford2021clip")

    target: HardTarget = choice(HARD_TARGETS, "one_hot")  # who matches whom
    weight: float = 5.0  # of the negatives
    impl: str = "auto"  # how the loss is computed: auto, eager, tiled, fused

    def __post_init__(self) -> None:
        choose_by_name(self)
        ActiveComplementary(self.weight)

    @property
    def divisible(self) -> bool:
        return self.target.divisible

    @property
    def matches_classes(self) -> bool:
        return type(self) is CRCL and self.target.matches_classes

    @property
    def weighs_pairs(self) -> bool:
        return True

    @property
    def needs(self) -> tuple[str, ...]:
        return "image", "text"

    def loss(self, embeddings: Embeddings, batch: Batch | None, scoring: Scoring) -> Loss:
        target: Target = scoring.bind(self.target, embeddings, batch)
        labels = None if batch is None else batch.side.get(PAIR_WEIGHT)
        if labels is not None:
            assert isinstance(target, HardTarget)
            target = PairLabels(target, labels)
        form = ActiveComplementary(self.weight)
        loss = scoring.contrast(embeddings.image, embeddings.text, target=target, form=form, impl=self.impl)
        return Loss(loss, {"contrastive": loss})
