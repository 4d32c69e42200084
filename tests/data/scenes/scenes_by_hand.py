"""Scenes for the tests, written by hand or drawn without the world, so that odd ones appear as well."""

from __future__ import annotations

import random
from itertools import permutations

from equipoise.data.scenes.language.meaning import Meaning
from equipoise.data.scenes.language.vocabulary import COLOURS, SHAPES, SIZES, TEXTURES
from equipoise.data.scenes.scene import Background, Scene, Thing

PLAIN = Background("gradient", ((0.7, 0.7, 0.7), (0.6, 0.6, 0.6)), 0)


def scene_of(*things: Thing) -> Scene:
    return Scene(things, PLAIN)


def thing(words: str, x: float = 0.5, y: float = 0.5, holder: int | None = None) -> Thing:
    """`thing("small solid red fish", 0.2, 0.5)`"""
    size, texture, colour, shape = words.split()
    return Thing(shape, colour, texture, size, x, y, SIZES[size][1], holder=holder)


def wild_scene(rng: random.Random) -> Scene:
    """Any number of things anywhere, few colours and shapes so that they repeat, perhaps inside each other."""
    number = rng.randint(1, 4)
    shapes, colours = rng.sample(list(SHAPES), 3), rng.sample(list(COLOURS), 3)
    things = []
    for i in range(number):
        look = rng.choice(shapes), rng.choice(colours), rng.choice([*TEXTURES, "checked"]), rng.choice(list(SIZES))
        holder = rng.randrange(i) if i and rng.random() < 0.3 else None
        things.append(Thing(*look, rng.random(), rng.random(), 0.1, holder=holder))
    return Scene(tuple(things), PLAIN)


def true_by_trying(meaning: Meaning, scene: Scene) -> bool:
    """The definition of truth, tried out on every assignment of things to phrases."""
    if meaning.count is not None and meaning.count != len(scene.things):
        return False
    for chosen in permutations(range(len(scene.things)), len(meaning.phrases)):
        attributes = all(
            (phrase.shapes is None or scene.things[i].shape in phrase.shapes)
            and (phrase.colours is None or scene.things[i].colour in phrase.colours)
            and phrase.texture in (None, scene.things[i].texture)
            and phrase.size in (None, scene.things[i].size)
            for phrase, i in zip(meaning.phrases, chosen, strict=True)
        )
        if attributes and all(scene.holds(chosen[a], relation, chosen[b]) for a, relation, b in meaning.relations):
            return True
    return False
