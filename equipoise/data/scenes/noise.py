"""Noise as a dial: what is wrong with scraped pairs, in known shares.

    shuffled          the record has the captions of another one
    wrong attribute   each caption has one attribute or relation changed, so that it is false of its image
    near duplicate    the image repeats an earlier one, a little moved and tinted, and is described anew

A record has one kind of noise at most; the shares add up to at most 1 and are met exactly in expectation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import accumulate, chain, repeat
from random import Random
from typing import Any

from equipoise.data.scenes.language.grammar import Caption, state
from equipoise.data.scenes.language.meaning import Meaning, Phrase, true_of
from equipoise.data.scenes.language.naming import COLOUR_ADJECTIVES, NOUNS, SHAPE_ADJECTIVES, SIZE_ADJECTIVES
from equipoise.data.scenes.language.vocabulary import CONVERSE, TEXTURES
from equipoise.data.scenes.language.wording import say
from equipoise.data.scenes.scene import Scene, Thing
from equipoise.types import UserError

CLEAN = "none"
TRIES = 30  # statements tried at one level of detail before a complete one, which can always be made false
MOVE = 0.05  # of the image side, at most
TINT = 0.02


@dataclass(frozen=True)
class Noise:
    """The share of records with each kind of noise."""

    shuffled: float = 0.0  # have another record's captions
    wrong_attribute: float = 0.0  # have captions that are false in one detail
    near_duplicates: float = 0.0  # repeat an earlier image, a little changed

    def __post_init__(self) -> None:
        for name, share in vars(self).items():
            if not 0 <= share <= 1:
                raise UserError(f"the noise share {name} is {share}; choose a number from 0 to 1")
        if sum(vars(self).values()) > 1 + 1e-9:
            raise UserError("the noise shares add up to more than 1; a record has one kind of noise at most")

    def kind(self, rng: Random) -> str:
        """The kind of noise drawn for a record, by its field's name, or "none"."""
        draw = rng.random()
        bounds = accumulate(vars(self).values())
        return next((f.name for f, bound in zip(fields(self), bounds, strict=True) if draw < bound), CLEAN)


def jittered(scene: Scene, rng: Random) -> Scene:
    """The same scene, moved a little as a whole and tinted a little differently."""
    dx = rng.uniform(*_room([(t.x, t.radius) for t in scene.things]))
    dy = rng.uniform(*_room([(t.y, t.radius) for t in scene.things]))
    things = (replace(t, x=t.x + dx, y=t.y + dy, tint=_tinted(t, rng)) for t in scene.things)
    return replace(scene, things=tuple(things))


def falsified(scene: Scene, rng: Random, detail: str) -> Caption:
    """A caption that is false of the scene, but true up to one attribute or relation."""
    for level in chain(repeat(detail, TRIES), repeat("complete")):
        meaning = one_changed(state(scene, rng, level), rng)
        if meaning is not None and not true_of(meaning, scene):
            return Caption(say(meaning, rng), meaning, level)
    raise AssertionError("unreachable")


def one_changed(meaning: Meaning, rng: Random) -> Meaning | None:
    """The statement with one attribute or relation replaced by another; None where it states neither."""
    stated = [(i, name) for i, phrase in enumerate(meaning.phrases) for name in ALTERNATIVES if getattr(phrase, name)]
    choices: Sequence[tuple[int, str | None]] = [*stated, *((i, None) for i in range(len(meaning.relations)))]
    if not choices:
        return None
    number, name = rng.choice(choices)
    if name is None:
        a, relation, b = meaning.relations[number]
        changed = (a, CONVERSE[relation], b)
        return replace(meaning, relations=_with(meaning.relations, number, changed))
    phrase = _other_phrase(meaning.phrases[number], name, rng)
    if len(set(meaning.phrases)) == 1 and not meaning.relations:  # "two stars" is one word, so it goes wrong as one
        return replace(meaning, phrases=(phrase,) * len(meaning.phrases))
    return replace(meaning, phrases=_with(meaning.phrases, number, phrase))


# attribute of a phrase -> groups within which one value is mistaken for another: a fish for a tree, warm for cool
ALTERNATIVES: Mapping[str, Sequence[Iterable[Any]]] = {
    "shapes": (NOUNS, SHAPE_ADJECTIVES),
    "colours": (
        [colours for colours in COLOUR_ADJECTIVES if len(colours) == 1],
        [colours for colours in COLOUR_ADJECTIVES if len(colours) > 1],
    ),
    "texture": (TEXTURES,),
    "size": (SIZE_ADJECTIVES,),
}


def _other_phrase(phrase: Phrase, name: str, rng: Random) -> Phrase:
    value = getattr(phrase, name)
    group = next(group for group in ALTERNATIVES[name] if value in group)
    return replace(phrase, **{name: rng.choice([other for other in group if other != value])})


def _with(items: tuple[Any, ...], number: int, item: Any) -> tuple[Any, ...]:
    return (*items[:number], item, *items[number + 1 :])


def _room(spans: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """How far all spans (middle, radius) may move together and stay within the image."""
    before = min(middle - radius for middle, radius in spans)
    after = 1 - max(middle + radius for middle, radius in spans)
    return -min(MOVE, max(before, 0.0)), min(MOVE, max(after, 0.0))


def _tinted(thing: Thing, rng: Random) -> tuple[float, float, float]:
    red, green, blue = (channel + rng.uniform(-TINT, TINT) for channel in thing.tint)
    return red, green, blue
