"""Objectives over named modalities: what a model is trained by, of the losses in `modalities/`.

    gmc           L_sup + L_GMC + β L_m²     each modality against the joint code (Poklukar et al. 2022; Oh et al. 2023)
    modal_pairs   L_sup + L_pairs            each modality against each other, or some pairs: CLIP for any number
    supervised    L_sup                      the label alone, told from the joint code: MulT as it is trained (Tsai)

L_sup is cross-entropy where the data has classes and L1 where it has numbers; the weight of what is not wanted is 0. A
sample counts in the terms of the modalities that it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from equipoise.data.source import CLASS, HAS_MODALITY, VALUE
from equipoise.forms import FORMS, Form
from equipoise.kernels import Scoring
from equipoise.objectives.modalities import GMCLoss, contrast_pairs, supervised
from equipoise.objectives.modalities.pairs import Pair
from equipoise.objectives.objective import Objective
from equipoise.settings.bounds import bounded
from equipoise.settings.choice import choice
from equipoise.types import EVERY_MODALITY, JOINT, SCORES, Batch, Embeddings, Loss, UserError

SUPERVISED = "supervised"


@dataclass(frozen=True)
class Supervised(Objective):
    """The label alone."""

    cites: ClassVar[tuple[str, ...]] = ("tsai2019mult",)

    @property
    def needs(self) -> tuple[str, ...]:
        return (SCORES,)

    def loss(self, embeddings: Embeddings, batch: Batch | None, scoring: Scoring) -> Loss:
        term = label_loss(embeddings, batch)
        return Loss(term + 0.0 * torch.as_tensor(scoring.log_scale), {SUPERVISED: term})


@dataclass(frozen=True)
class GMC(Objective):
    cites: ClassVar[tuple[str, ...]] = GMCLoss.cites

    supervised_weight: float = bounded(1.0, 0.0, 1e6)  # of the label's loss
    contrast_weight: float = bounded(1.0, 0.0, 1e6)  # of the contrast
    m2_weight: float = bounded(0.0, 0.0, 1e6)  # β; 0.2 in the mixup paper
    m2_alpha: float = bounded(2.0, 1e-6, 1e6)  # of Beta(α, α)
    reading: str = "per_anchor"  # of m²-Mix: per_anchor, literal
    impl: str = "auto"  # how the loss is computed: auto, eager, tiled, fused

    def __post_init__(self) -> None:
        self._contrast()

    def _contrast(self) -> GMCLoss:
        return GMCLoss(self.m2_weight, self.m2_alpha, self.reading, self.impl)

    @property
    def needs(self) -> tuple[str, ...]:
        return (EVERY_MODALITY, JOINT, *((SCORES,) if self.supervised_weight else ()))

    @property
    def mixes(self) -> bool:
        return self.m2_weight > 0

    def loss(self, embeddings: Embeddings, batch: Batch | None, scoring: Scoring) -> Loss:
        codes, present = codes_of(embeddings, batch)
        assert batch is not None
        contrast = self._contrast()(embeddings.roles()[JOINT], codes, scoring, batch.moment, present)
        return _with_label(contrast, self.contrast_weight, self.supervised_weight, embeddings, batch)


@dataclass(frozen=True)
class ModalPairs(Objective):
    cites: ClassVar[tuple[str, ...]] = ("radford2021clip",)

    supervised_weight: float = bounded(0.0, 0.0, 1e6)  # of the label's loss
    contrast_weight: float = bounded(1.0, 0.0, 1e6)  # of the contrast
    form: Form = choice(FORMS, "cross_entropy")  # how similarity is held against the target
    impl: str = "auto"  # how the loss is computed: auto, eager, tiled, fused
    pairs: tuple[str, ...] = ()  # of modalities that are contrasted, each as "text+audio"; none: all

    def __post_init__(self) -> None:
        for pair in self.pairs:
            if len(set(pair.split("+"))) != 2 or pair.count("+") != 1:
                raise UserError(f'objective.pairs has "{pair}"; join two different modalities by +, as in "text+audio"')

    def check_names(self, names: Sequence[str]) -> None:
        """Raise UserError for a pair of modalities that the model does not read."""
        if unknown := [name for pair in self._pairs for name in pair if name not in names]:
            raise UserError(
                f'objective.pairs names "{unknown[0]}", but the model reads {", ".join(names)}; choose among these'
            )

    @property
    def _pairs(self) -> list[Pair]:
        return [(first, second) for pair in self.pairs for first, _, second in [pair.partition("+")]]

    @property
    def needs(self) -> tuple[str, ...]:
        return (EVERY_MODALITY, *((SCORES,) if self.supervised_weight else ()))

    @property
    def learned_bias(self) -> float | None:
        return self.form.learned_bias

    def loss(self, embeddings: Embeddings, batch: Batch | None, scoring: Scoring) -> Loss:
        codes, present = codes_of(embeddings, batch)
        contrast = contrast_pairs(codes, scoring, pairs=self._pairs, form=self.form, present=present, impl=self.impl)
        return _with_label(contrast, self.contrast_weight, self.supervised_weight, embeddings, batch)


def _with_label(
    contrast: Loss, weight: float, label_weight: float, embeddings: Embeddings, batch: Batch | None
) -> Loss:
    """A contrast beside the loss of the label, each by its weight."""
    if not label_weight:
        return Loss(weight * contrast.total, contrast.terms, contrast.facts)
    term = label_loss(embeddings, batch)
    return Loss(weight * contrast.total + label_weight * term, {**contrast.terms, SUPERVISED: term}, contrast.facts)


def codes_of(embeddings: Embeddings, batch: Batch | None) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Points of the modalities by name, and which samples have those that some lack."""
    if batch is None:
        raise UserError("an objective of modalities looks at who has which; give the batch beside its embeddings")
    roles = embeddings.roles()
    has = {key.removeprefix(HAS_MODALITY): rows for key, rows in batch.side.items() if key.startswith(HAS_MODALITY)}
    codes = {name: roles[name] for name in has if name in roles}
    return codes, {name: has[name] for name in codes if not bool(has[name].all())}


def label_loss(embeddings: Embeddings, batch: Batch | None) -> Tensor:
    """Cross-entropy of classes, or L1 of numbers."""
    side = {} if batch is None else batch.side
    kind, key = ("cross_entropy", CLASS) if CLASS in side else ("l1", VALUE)
    if key not in side:
        raise UserError("the data has no labels to learn; add some, or set objective.supervised_weight to 0")
    return supervised(embeddings.further[SCORES], side[key], kind)
