"""The points of a judge on pairs that it has not been trained on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from equipoise.analysis.noise import Pairs
from equipoise.data.remap import subset
from equipoise.data.source import Source
from equipoise.evaluation.encoding import captions, encode_images
from equipoise.models.model import Model

BATCH = 256


@dataclass(frozen=True)
class Judge:
    """A model that judges pairs, and the folder it was trained in; None where it was given."""

    model: Model
    folder: Path | None = None


PointsOf = Callable[[Judge, Source, Sequence[int]], Pairs]  # of the records with these numbers


def points_of(model: Model, source: Source) -> Pairs:
    texts = captions(source, 0)
    return Pairs(encode_images(model, source, BATCH).cpu(), texts.points(model).cpu(), texts.image_of_text)


def points_here(judge: Judge, source: Source, part: Sequence[int]) -> Pairs:
    """The points of the records `part` of a source, computed in this process."""
    return points_of(judge.model, subset(source, part))
