"""One word of what a scene shows, replaced by another.

    shape      a red fish left of a blue star, "star" -> "tree":           a red fish left of a blue tree
    colour     a red fish left of a blue star, "red" -> "green":           a green fish left of a blue star
    relation   a red fish left of a blue star, "left of" -> "above":       a red fish above a blue star

A word is replaced where it names one thing of the scene, by one that names none, so that it is clear what is meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random

from equipoise.data.scenes.language.meaning import true_of
from equipoise.data.scenes.language.relations import spoken_relation
from equipoise.data.scenes.language.vocabulary import COLOURS, RELATIONS, SHAPES
from equipoise.data.scenes.scene import Scene
from equipoise.data.scenes.simat_restage import Cast, stageable
from equipoise.data.scenes.world import World

BESIDE = ("left_of", "right_of", "above", "below")
SHAPE, COLOUR, RELATION = "shape", "colour", "relation"
LOOK = {SHAPE: 0, COLOUR: 1}  # places in a look


@dataclass(frozen=True)
class WordChange:
    field: str
    value: str
    target: str
    cast: Cast  # what is to be found


def cast_of(scene: Scene, rng: Random) -> Cast | None:
    """What is named of a scene: a thing alone, or two beside each other; None where one lies inside another."""
    if any(thing.holder is not None for thing in scene.things):
        return None
    order = rng.sample(range(len(scene.things)), len(scene.things))
    looks = tuple((scene.things[number].shape, scene.things[number].colour) for number in order)
    if len(order) == 1:
        return Cast(looks)
    relation = spoken_relation(scene, order[0], order[1])
    return Cast(looks, relation) if relation in BESIDE else None


def changes(scene: Scene, cast: Cast, world: World, rng: Random) -> Iterator[WordChange]:
    """One change of each field that allows one, false of the scene as it is and possible in held-out scenes."""
    for field, values in ((SHAPE, world.shapes), (COLOUR, world.colours)):
        place = LOOK[field]
        taken = [look[place] for look in cast.looks]
        single = [number for number in range(len(cast.named)) if taken.count(taken[number]) == 1]
        if single:
            number = rng.choice(single)
            options = {value: _recast(cast, number, place, value) for value in values if value not in taken}
            yield from _chosen(field, taken[number], options, world, rng)
    if cast.relation is not None:
        others = {other: replace(cast, relation=other) for other in BESIDE}
        options = {other: changed for other, changed in others.items() if not true_of(changed.meaning(), scene)}
        yield from _chosen(RELATION, cast.relation, options, world, rng)


def _recast(cast: Cast, number: int, place: int, value: str) -> Cast:
    shape, colour = cast.looks[number]
    look = (value, colour) if place == LOOK[SHAPE] else (shape, value)
    return replace(cast, looks=(*cast.looks[:number], look, *cast.looks[number + 1 :]))


def _chosen(field: str, value: str, options: Mapping[str, Cast], world: World, rng: Random) -> Iterator[WordChange]:
    possible = [other for other, cast in options.items() if stageable(cast, world)]
    if possible:
        target = rng.choice(possible)
        yield WordChange(field, word(field, value), word(field, target), options[target])


def word(field: str, value: str) -> str:
    """The plainest word for a value."""
    if field == COLOUR:
        return COLOURS[value][0][0]
    return (SHAPES if field == SHAPE else RELATIONS)[value][0]
