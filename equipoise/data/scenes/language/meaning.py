"""A caption is a logical statement, and this is the statement.

A meaning names some things (phrases), says how they stand to each other (relations) and perhaps how many things there
are in the whole picture (count). It is true of a scene if distinct things can be assigned to the phrases so that every
attribute and every relation holds. So "a red fish" is true of a picture with two of them; only a count is exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from equipoise.data.scenes.scene import Scene, Thing


@dataclass(frozen=True)
class Phrase:
    """What is said of one thing; None leaves an attribute open."""

    shapes: frozenset[str] | None = None
    colours: frozenset[str] | None = None
    texture: str | None = None
    size: str | None = None

    def fits(self, thing: Thing) -> bool:
        return (
            (self.shapes is None or thing.shape in self.shapes)
            and (self.colours is None or thing.colour in self.colours)
            and (self.texture is None or thing.texture == self.texture)
            and (self.size is None or thing.size == self.size)
        )


ANYTHING = Phrase()


@dataclass(frozen=True)
class Meaning:
    """Phrases, relations between them as (phrase, relation, phrase) numbers, and the number of things."""

    phrases: tuple[Phrase, ...]
    relations: tuple[tuple[int, str, int], ...] = ()
    count: int | None = None


def true_of(meaning: Meaning, scene: Scene) -> bool:
    """Whether the statement is true of the scene."""
    if meaning.count is not None and meaning.count != len(scene.things):
        return False
    fitting = [[t for t, thing in enumerate(scene.things) if phrase.fits(thing)] for phrase in meaning.phrases]
    return _assignable(meaning, scene, fitting, ())


def _assignable(meaning: Meaning, scene: Scene, fitting: Sequence[Sequence[int]], chosen: tuple[int, ...]) -> bool:
    """Whether the things chosen for the first phrases can be extended to all phrases."""
    phrase = len(chosen)
    if phrase == len(fitting):
        return True
    for thing in fitting[phrase]:
        if thing in chosen:
            continue
        extended = (*chosen, thing)
        spoken = (r for r in meaning.relations if max(r[0], r[2]) == phrase)
        if all(scene.holds(extended[a], relation, extended[b]) for a, relation, b in spoken) and _assignable(
            meaning, scene, fitting, extended
        ):
            return True
    return False
