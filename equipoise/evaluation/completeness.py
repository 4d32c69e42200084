"""Completeness: does a model notice that a sentence leaves something out of a picture, or gets it wrong?

Chen et al. 2023 (FDT), §4.4 and App. C. Of a picture with the objects o_1 ... o_N, the matched sentence is "An photo
contains o_1, o_2, ..., o_{N-1}, and o_N"; each object left out in turn gives a partially matched sentence, so N pairs
of sentences a picture. The number is the share of pairs whose matched sentence is the closer one to the picture:

    completeness = 1/|pairs| Σ [ s(image, matched) > s(image, partial) ]        guessing: 1/2

A tie counts against the model. A picture needs two objects, for a sentence without any says nothing. Objects are what
is present, each kind once, as the number of the paper's pairs (305,723 of MSCOCO's training images) suggests; it does
not say so, nor how two objects are joined: here by " and ".

The control is ours. The matched sentence of a pair is always the longer one, so a model that likes long sentences, or
many names, has 100% without a look at the picture. "Object added" asks the other way round: as many pairs for each
picture, in which the second sentence names, at a place that is drawn, one object more, which is not there. The model
that goes by length has 0% of these, and 50% of both together (`balanced`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import torch

from equipoise.data.source import Source
from equipoise.evaluation.encoding import Captions, encode_image_subset
from equipoise.models.compatibility import require_compatible
from equipoise.models.model import Model
from equipoise.types import UserError

TEMPLATE = "An photo contains {}"  # the paper's words
LEFT_OUT, ADDED = "object left out", "object added"
IMAGES = 256  # at once


@dataclass(frozen=True)
class SentencePair:
    """A picture with a sentence that says all of it and one that does not."""

    image: int
    kind: str  # of what is missing or wrong
    matched: str
    partial: str
    objects: int


@dataclass(frozen=True)
class Completeness:
    kind: str
    objects: int  # in the picture; 0: any number
    right: float
    pairs: int

    @property
    def error(self) -> float:
        """The standard error of `right`, as if pairs were independent."""
        return math.sqrt(self.right * (1 - self.right) / self.pairs)


def listed(names: Sequence[str]) -> str:
    """a; a and b; a, b, and c."""
    if len(names) < 3:
        return " and ".join(names)
    return f"{', '.join(names[:-1])}, and {names[-1]}"


def left_out(image: int, names: Sequence[str], template: str = TEMPLATE) -> list[SentencePair]:
    """Pairs of sentences of a picture: one per object, none where there are fewer than two."""
    if "{}" not in template:
        raise UserError(f'the template "{template}" has no place for the objects: write {{}} where they belong')
    names = list(dict.fromkeys(names))
    if len(names) < 2:
        return []
    matched = template.replace("{}", listed(names))
    rests = [names[:number] + names[number + 1 :] for number in range(len(names))]
    return [SentencePair(image, LEFT_OUT, matched, template.replace("{}", listed(rest)), len(names)) for rest in rests]


def added(
    image: int, names: Sequence[str], others: Sequence[str], rng: Random, template: str = TEMPLATE
) -> list[SentencePair]:
    """The control: pairs of sentences of a picture whose second names one of `others`, which is not there; as many as
    `left_out` has, or as there are others."""
    names = list(dict.fromkeys(names))
    absent = [name for name in dict.fromkeys(others) if name not in names]
    if len(names) < 2:
        return []
    matched, pairs = template.replace("{}", listed(names)), []
    for other in rng.sample(absent, min(len(names), len(absent))):
        place = rng.randrange(len(names) + 1)
        longer = [*names[:place], other, *names[place:]]
        pairs.append(SentencePair(image, ADDED, matched, template.replace("{}", listed(longer)), len(names)))
    return pairs


def judged(model: Model, source: Source, contrasts: Sequence[SentencePair]) -> list[bool]:
    """Whether the matched sentence is the closer one, per pair of sentences."""
    require_compatible(model, source)
    if not contrasts:
        raise UserError("no picture of this data has two known objects, so there is nothing to leave out")
    right: list[bool] = []
    for start in range(0, len(contrasts), IMAGES):
        batch = contrasts[start : start + IMAGES]
        numbers = sorted({pair.image for pair in batch})
        place = {number: row for row, number in enumerate(numbers)}
        images = encode_image_subset(model, source, numbers)[[place[pair.image] for pair in batch]]
        matched, partial = (
            model.similarity(images, _points(model, texts)).diagonal()
            for texts in ([pair.matched for pair in batch], [pair.partial for pair in batch])
        )
        right += (matched > partial).tolist()
    return right


def _points(model: Model, texts: list[str]) -> torch.Tensor:
    return Captions(texts, torch.arange(len(texts))).points(model)


def completeness(contrasts: Sequence[SentencePair], right: Sequence[bool]) -> list[Completeness]:
    """Shares of pairs judged right, by kind: over all pictures, and by the number of their objects."""
    results, judgements = [], list(zip(contrasts, right, strict=True))
    for kind in dict.fromkeys(pair.kind for pair in contrasts):
        own = [(pair.objects, correct) for pair, correct in judgements if pair.kind == kind]
        for objects in (0, *sorted({count for count, _ in own})):
            chosen = [correct for count, correct in own if objects in (0, count)]
            results.append(Completeness(kind, objects, sum(chosen) / len(chosen), len(chosen)))
    return results


def balanced(found: Sequence[Completeness]) -> float | None:
    """The mean over sentences that say too little and too much; None where one kind is missing."""
    shares = {one.kind: one.right for one in found if not one.objects}
    return (shares[LEFT_OUT] + shares[ADDED]) / 2 if {LEFT_OUT, ADDED} <= shares.keys() else None
