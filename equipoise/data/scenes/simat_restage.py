"""The same things in another scene: what is named keeps its shape and colour, all else is drawn anew.

A cast is the shapes and colours of a scene's things, the first two of which may stand in a relation. It is restaged by
taking a scene of the world with as many things and giving those the looks of the cast: textures, sizes, places and
background are the other scene's. Its content belongs to a split that is held out: no model was trained on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations, product

from equipoise.data.rng import python_random
from equipoise.data.scenes.language.meaning import Meaning, Phrase
from equipoise.data.scenes.language.naming import with_article
from equipoise.data.scenes.language.vocabulary import COLOURS, RELATIONS, SHAPES, SIZES
from equipoise.data.scenes.scene import Scene
from equipoise.data.scenes.shifts import SHIFTS
from equipoise.data.scenes.world import Look, World, sample_scene, split_of
from equipoise.types import UserError

TRIES = 2_000  # scenes looked at for one that a cast can take over


@dataclass(frozen=True)
class Cast:
    """Who is on stage: (shape, colour) of every thing; the first, or the first two with their relation, are named."""

    looks: tuple[tuple[str, str], ...]
    relation: str | None = None

    @property
    def named(self) -> tuple[tuple[str, str], ...]:
        return self.looks[: 1 if self.relation is None else 2]

    def meaning(self) -> Meaning:
        phrases = tuple(Phrase(frozenset({shape}), frozenset({colour})) for shape, colour in self.named)
        return Meaning(phrases, () if self.relation is None else ((0, self.relation, 1),))

    def parts(self) -> tuple[str, str, str]:
        """Subject, relation and object in the plainest words; a thing alone has neither of the last two."""
        said = [f"{COLOURS[colour][0][0]} {SHAPES[shape][0]}" for shape, colour in self.named]
        return (said[0], RELATIONS[self.relation][0], said[1]) if self.relation is not None else (said[0], "", "")

    def caption(self) -> str:
        """ "a red fish left of a blue star" """
        subject, relation, other = self.parts()
        return f"{with_article(subject)} {relation} {with_article(other)}" if relation else with_article(subject)


def stageable(cast: Cast, world: World) -> bool:
    """Whether these things have textures and sizes with which no training scene shows them."""
    every = [[(*look, texture, size) for texture in world.textures for size in SIZES] for look in cast.looks]
    return any(_held_out(content) for content in product(*every))


def restaged(cast: Cast, world: World, seed: int, name: str) -> Scene:
    """A scene of this cast, drawn for its `name`; the same for the same arguments."""
    plain = replace(world, shift="none", min_things=len(cast.looks), max_things=len(cast.looks))
    first = python_random(seed, name, "stage").randrange(2**40)
    for number in range(first, first + TRIES):
        stage = sample_scene(plain, seed, "test", number)
        for order in _orders(stage, cast):
            scene = _taken_over(stage, order, cast)
            if _held_out(scene.content()):
                return SHIFTS[world.shift](scene, python_random(seed, name, world.shift))
    raise UserError(f"no held-out scene with {cast.caption()} was found; allow more textures in these scenes")


def _held_out(content: tuple[Look, ...]) -> bool:
    return split_of(tuple(sorted(content))) != "train"


def _orders(stage: Scene, cast: Cast) -> Iterator[tuple[int, ...]]:
    """Which thing of the stage each of the cast may become."""
    if any(thing.holder is not None for thing in stage.things):  # an outline that others fit into is no place to trade
        return
    for order in permutations(range(len(stage.things))):
        if cast.relation is None or stage.holds(order[0], cast.relation, order[1]):
            yield order


def _taken_over(stage: Scene, order: tuple[int, ...], cast: Cast) -> Scene:
    things = list(stage.things)
    for number, (shape, colour) in zip(order, cast.looks, strict=True):
        things[number] = replace(things[number], shape=shape, colour=colour)
    return replace(stage, things=tuple(things))
