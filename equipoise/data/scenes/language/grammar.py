"""What a person might say of a scene: `describe` chooses a true statement, `wording` finds its words.

Three levels of detail. Complete: every thing with all its attributes, held together by relations. Partial: some things,
some attributes. Abstract: kinds of things and colours, and numbers ("two things, one of them round").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from equipoise.data.scenes.language.meaning import ANYTHING, Meaning, Phrase
from equipoise.data.scenes.language.relations import around_first, linked, naming_order
from equipoise.data.scenes.language.vocabulary import COLOUR_KINDS, COLOURS, SHAPE_KINDS, SHAPES, TEXTURES
from equipoise.data.scenes.language.wording import say
from equipoise.data.scenes.scene import Scene, Thing
from equipoise.types import UserError

SHAPE_KINDS_OF = {
    shape: tuple(members for kind, (_, members) in SHAPE_KINDS.items() if kind != "thing" and shape in members)
    for shape in SHAPE_KINDS["thing"][1]
}
JUST = {value: frozenset({value}) for value in (*SHAPES, *COLOURS)}  # made once: a set is slow to make and to hash
COLOUR_KIND_OF = {colour: members for _, members in COLOUR_KINDS.values() for colour in members}


@dataclass(frozen=True)
class Caption:
    text: str
    meaning: Meaning
    detail: str


def describe(scene: Scene, rng: Random, detail: str) -> Caption:
    """A true caption of the scene at a level of detail: complete, partial or abstract."""
    meaning = state(scene, rng, detail)
    return Caption(say(meaning, rng), meaning, detail)


def state(scene: Scene, rng: Random, detail: str) -> Meaning:
    """A true statement about the scene, ready to be said."""
    if detail not in DETAILS:
        raise UserError(f'unknown level of detail "{detail}": choose among {", ".join(DETAILS)}')
    return DETAILS[detail](scene, rng)


def _complete(scene: Scene, rng: Random) -> Meaning:
    order = naming_order(scene, rng)
    phrases = tuple(_full_phrase(scene.things[i]) for i in order)
    if len(order) < 4:
        return Meaning(phrases, linked(scene, order, rng))
    around = around_first(scene, order) if rng.random() < 0.3 else ()
    second = tuple((a + 2, relation, b + 2) for a, relation, b in linked(scene, order[2:], rng))
    return Meaning(phrases, around or linked(scene, order[:2], rng) + second)


def _partial(scene: Scene, rng: Random) -> Meaning:
    order = naming_order(scene, rng)
    draw = rng.random()
    if len(order) == 1 or draw < 0.4:
        count = 1 if len(order) == 1 and rng.random() < 0.25 else None
        return Meaning((_some_phrase(scene.things[order[0]], rng),), count=count)
    if draw < 0.5 and (alike := _alike(scene, order[0], rng)):
        return alike
    order = order[: 3 if draw > 0.9 else 2]
    phrases = tuple(_some_phrase(scene.things[i], rng) for i in order)
    return Meaning(phrases, linked(scene, order, rng) if draw < 0.85 else ())


def _abstract(scene: Scene, rng: Random) -> Meaning:
    order = naming_order(scene, rng)
    phrase = _kind_phrase(scene.things[order[0]], rng)
    draw = rng.random()
    if draw < 0.3:
        return _counted(scene, phrase if rng.random() < 0.8 else ANYTHING)
    if len(order) == 1 or draw < 0.6:
        return Meaning((phrase,))
    if draw < 0.7:
        return Meaning((phrase,) * sum(map(phrase.fits, scene.things)))
    return Meaning((phrase, _kind_phrase(scene.things[order[1]], rng)), linked(scene, order[:2], rng))


DETAILS: Mapping[str, Callable[[Scene, Random], Meaning]] = {
    "complete": _complete,
    "partial": _partial,
    "abstract": _abstract,
}


def _full_phrase(thing: Thing) -> Phrase:
    return Phrase(JUST[thing.shape], JUST[thing.colour], _named_texture(thing), thing.size)


def _named_texture(thing: Thing) -> str | None:
    return thing.texture if thing.texture in TEXTURES else None


def _some_phrase(thing: Thing, rng: Random) -> Phrase:
    """Some attributes, the shape most often; a solid surface or a middling size is nothing one remarks on."""
    while True:
        phrase = Phrase(
            JUST[thing.shape] if rng.random() < 0.8 else None,
            JUST[thing.colour] if rng.random() < 0.5 else None,
            _named_texture(thing) if thing.texture != "solid" and rng.random() < 0.4 else None,
            thing.size if thing.size != "medium" and rng.random() < 0.25 else None,
        )
        if phrase != ANYTHING:
            return phrase


def _kind_phrase(thing: Thing, rng: Random) -> Phrase:
    """The kind of shape, the kind of colour or both; now and then just the surface."""
    shapes = rng.choice(SHAPE_KINDS_OF[thing.shape]) if SHAPE_KINDS_OF[thing.shape] and rng.random() < 0.7 else None
    if shapes is None and thing.texture != "solid" and rng.random() < 0.3 and (texture := _named_texture(thing)):
        return Phrase(texture=texture)
    colours = COLOUR_KIND_OF[thing.colour] if shapes is None or rng.random() < 0.3 else None
    return Phrase(shapes, colours)


def _alike(scene: Scene, first: int, rng: Random) -> Meaning | None:
    """ "two stars", "three red things": all that share the shape or the colour of the first, if there are more."""
    thing = scene.things[first]
    phrase = Phrase(shapes=JUST[thing.shape]) if rng.random() < 0.5 else Phrase(colours=JUST[thing.colour])
    number = sum(map(phrase.fits, scene.things))
    return Meaning((phrase,) * number) if number > 1 else None


def _counted(scene: Scene, phrase: Phrase) -> Meaning:
    """The number of things, and how many of them are so."""
    count = len(scene.things)
    fitting = 0 if phrase == ANYTHING and count > 1 else sum(map(phrase.fits, scene.things))
    return Meaning((phrase,) * fitting, count=count)
