"""SIMAT over several λ: chosen on dev, reported on test.

The program released with m²-Mix (Oh et al. 2023) reports the largest score on dev over λ in LAMBDAS. That number is
`simat_dev_max` here; `simat` is what the λ that reached it scores on transformations it was not chosen on.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from equipoise.data.simat_questions import DEV, SPLITS, TEST, Transformations
from equipoise.data.source import Source
from equipoise.evaluation.encoding import encode_images
from equipoise.evaluation.simat.score import Answers, Score, answer, chance, scored
from equipoise.models.model import Model
from equipoise.types import UserError

LAMBDAS = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5, 6.0, 7.0)
PLAIN = 1.0  # the λ that is named on its own, where it is tried

Scores = dict[str, Score]  # "all" and each field


@dataclass(frozen=True)
class SimatSweep:
    """One split at every λ."""

    lambdas: tuple[float, ...]
    scores: tuple[Scores, ...]  # one per λ
    answers: tuple[Answers, ...]
    chance: Scores

    @property
    def best(self) -> int:
        """The place of the λ that scores most; the smallest of several."""
        reached = [scores["all"].score for scores in self.scores]
        return min(range(len(reached)), key=lambda place: (-reached[place], self.lambdas[place]))


@dataclass(frozen=True)
class SimatPoints:
    """Points of the database [N, d] and of each word [d]."""

    pictures: Tensor
    words: dict[str, Tensor]


def checked(lambdas: Sequence[float]) -> tuple[float, ...]:
    """The λ to try; raises UserError where one is no λ."""
    if not lambdas:
        raise UserError("there is no λ to try; give at least one, 1 for instance")
    for lam in lambdas:
        if not math.isfinite(lam) or lam < 0:
            raise UserError(f"λ is {lam:g}; give numbers from 0 up")
        if lambdas.count(lam) > 1:
            raise UserError(f"λ = {lam:g} is given twice; give each once")
    return tuple(float(lam) for lam in lambdas)


def sweep(
    points: SimatPoints, transformations: Transformations, lambdas: Sequence[float] = LAMBDAS
) -> dict[str, SimatSweep]:
    """Sweeps of dev and test, as far as there are transformations of them."""
    lambdas = checked(lambdas)
    found = {}
    for split in SPLITS:
        if questions := transformations.of(split):
            answers = answer(points.pictures, points.words, questions, transformations.oracle, lambdas)
            scores = tuple(scored(questions, one.right) for one in answers)
            found[split] = SimatSweep(lambdas, scores, tuple(answers), chance(questions, transformations.oracle))
    return found


def encoded_words(model: Model, words: Sequence[str]) -> dict[str, Tensor]:
    """Bare words, as published: no prompt."""
    if model.text_encoder.reads != "words":
        raise UserError("this model reads features of texts, so it cannot read words; give one that does")
    return dict(zip(words, model.encode_text(list(words)), strict=True))


def named(found: dict[str, SimatSweep]) -> dict[str, float]:
    """The numbers of a sweep by name. `simat` needs dev to choose λ on and test to report; one λ needs no choice."""
    numbers: dict[str, float] = {}
    for split, one in found.items():
        numbers[f"simat_{split}_chance"] = one.chance["all"].score
        if PLAIN in one.lambdas:
            numbers[f"simat_{split}_lambda_1"] = one.scores[one.lambdas.index(PLAIN)]["all"].score
    if DEV in found:
        dev = found[DEV]
        numbers["simat_dev_max"], numbers["simat_lambda"] = dev.scores[dev.best]["all"].score, dev.lambdas[dev.best]
    place = chosen(found)
    if TEST in found and place is not None:
        for field, score in found[TEST].scores[place].items():
            name = "simat" if field == "all" else f"simat_{field}"
            numbers[name], numbers[f"{name}_error"] = score.score, score.error
    return numbers


def chosen(found: dict[str, SimatSweep]) -> int | None:
    """The place of the λ to report: the best on dev, or the only one; None where there is nothing to choose by."""
    if DEV in found:
        return found[DEV].best
    return 0 if len(found[TEST].lambdas) == 1 else None


@torch.no_grad()
def simat(
    model: Model,
    transformations: Transformations,
    source: Source,
    lambdas: Sequence[float] = LAMBDAS,
    batch_size: int = 256,
) -> dict[str, float]:
    """Named numbers of a model; `source` holds the pictures of the database, in its order."""
    checked(lambdas)
    if len(source) != len(transformations.keys):
        raise UserError(
            f"the database has {len(transformations.keys):,} pictures, but the source {len(source):,}; give those"
        )
    points = SimatPoints(encode_images(model, source, batch_size), encoded_words(model, transformations.words))
    return named(sweep(points, transformations, lambdas))
