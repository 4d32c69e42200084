"""A caption's statements, one by one, against a scene that is known: how many are true, and which things are named.

    said     each attribute of each phrase (shape, colour, surface, size; of "something" that it is there), each
             relation, the number of things where one is given
    true     as many of them as can be true at once, with each phrase meaning at most one thing and no two the same
    named    things that a phrase means whose shape and all else that it says are right

So "a red fish left of a star" says four things, of which three are true where the fish is right of the star. A caption
as a whole is true where all it says is (`data/scenes/language/meaning.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from equipoise.data.scenes.language.meaning import Meaning, Phrase
from equipoise.data.scenes.scene import Scene, Thing


class Judged(NamedTuple):
    """Statements of a caption that are true, all that it makes, and things that it names."""

    true: int
    said: int
    named: int


def judge(meaning: Meaning, scene: Scene) -> Judged:
    """Count the statements of `meaning`, and those that are true of the scene."""
    said = sum(_said(phrase) for phrase in meaning.phrases) + len(meaning.relations) + (meaning.count is not None)
    exact = int(meaning.count is not None and meaning.count == len(scene.things))
    true, named = max(_outcome(meaning, scene, chosen) for chosen in _assignments(len(meaning.phrases), scene))
    return Judged(true + exact, said, named)


def _assignments(phrases: int, scene: Scene, taken: frozenset[int] = frozenset()) -> Iterator[tuple[int | None, ...]]:
    """Every way to let each phrase mean a thing of its own, or none."""
    if not phrases:
        yield ()
        return
    for thing in (None, *(number for number in range(len(scene.things)) if number not in taken)):
        used = taken if thing is None else taken | {thing}
        for others in _assignments(phrases - 1, scene, used):
            yield (thing, *others)


def _outcome(meaning: Meaning, scene: Scene, chosen: tuple[int | None, ...]) -> tuple[int, int]:
    """True statements and named things of one assignment."""
    pairs = [
        (phrase, scene.things[thing])
        for phrase, thing in zip(meaning.phrases, chosen, strict=True)
        if thing is not None
    ]
    related = 0
    for a, relation, b in meaning.relations:
        first, second = chosen[a], chosen[b]
        related += first is not None and second is not None and scene.holds(first, relation, second)
    named = sum(phrase.shapes is not None and phrase.fits(thing) for phrase, thing in pairs)
    return sum(_true(phrase, thing) for phrase, thing in pairs) + related, named


def _parts(phrase: Phrase) -> list[Phrase]:
    """What is said of a thing, each alone."""
    parts = [Phrase(shapes=phrase.shapes), Phrase(colours=phrase.colours), Phrase(texture=phrase.texture),
             Phrase(size=phrase.size)]  # fmt: skip
    return [part for part in parts if part != Phrase()] or [Phrase()]


def _said(phrase: Phrase) -> int:
    return len(_parts(phrase))


def _true(phrase: Phrase, thing: Thing) -> int:
    return sum(part.fits(thing) for part in _parts(phrase))
