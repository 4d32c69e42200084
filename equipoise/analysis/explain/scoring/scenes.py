"""Questions to explanations, drawn from scenes: a picture of several things, the name of one of them, and its box."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import islice

from equipoise.data.scenes.annotation import has_scene
from equipoise.data.source import Source
from equipoise.evaluation.completeness import listed
from equipoise.evaluation.completeness_scenes import TEMPLATE, named
from equipoise.types import UserError


@dataclass(frozen=True)
class Question:
    image: int
    name: str  # "a red fish"
    box: tuple[float, float, float, float]  # x0, y0, x1, y1 in [0, 1]
    other: str  # the name of another thing in the picture
    sentence: str  # that names all things


def questions(source: Source, most: int) -> list[Question]:
    """The first `most` things that have a name of their own in a picture of several."""
    if not len(source) or not has_scene(source.pair(0)):
        raise UserError(
            "explanations are scored where the place of every thing is known, on scenes; give a recipe of scenes as "
            "DATA, such as demo, or --image and --text to explain one pair"
        )
    found = list(islice((one for index in range(len(source)) for one in _of(source, index)), most))
    if not found:
        raise UserError("no picture of this data has two things with different names; set data.max_things to 2 or more")
    return found


def _of(source: Source, index: int) -> list[Question]:
    pair = source.pair(index)
    if not has_scene(pair):
        return []
    names = [named(thing) for thing in pair.truth["scene"]["things"]]
    counts, sentence = Counter(names), TEMPLATE.replace("{}", listed(list(dict.fromkeys(names))))
    return [
        Question(index, name, box, next(other for other in names if other != name), sentence)
        for name, box in zip(names, pair.boxes, strict=True)
        if counts[name] == 1 and len(counts) > 1
    ]
