"""SIMAT on scenes, with an oracle that cannot err: one word of what a scene shows is replaced by another.

    colour     a red fish left of a blue star, "red" -> "green":           a green fish left of a blue star
    shape      a red fish left of a blue star, "star" -> "tree":           a red fish left of a blue tree
    relation   a red fish left of a blue star, "left of" -> "above":       a red fish above a blue star

Sources are scenes of the corpus: those of its validation split for dev, those of its test split for test. A word is
replaced where it names one thing of the scene, by one that names none, so that it is clear what is meant. The database
holds every source; for every source another scene of just the same things, which whoever ignores the words will find;
and for every transformation a scene that is right. What is right for one is nearly right for the others of its source.
The oracle is the truth of each scene.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random

import torch

from equipoise.data.scenes.corpus import Scenes
from equipoise.data.scenes.dice import dice
from equipoise.data.scenes.gallery import Gallery
from equipoise.data.scenes.meaning import Meaning, true_of
from equipoise.data.scenes.relating import spoken_relation
from equipoise.data.scenes.relevance import relevance
from equipoise.data.scenes.restaging import Cast, restaged, stageable
from equipoise.data.scenes.scene import Scene
from equipoise.data.scenes.vocabulary import COLOURS, RELATIONS, SHAPES
from equipoise.data.scenes.world import World, sample_scene
from equipoise.data.transformations import DEV, TEST, Oracle, Transformation, Transformations, counted
from equipoise.types import UserError

SPLIT_OF = {DEV: "validation", TEST: "test"}
BESIDE = ("left_of", "right_of", "above", "below")
COLOUR, SHAPE, RELATION = "colour", "shape", "relation"
LOOK = {SHAPE: 0, COLOUR: 1}  # places in a look
ORACLE = "the truth of scenes"
LOOKED_AT = 20  # scenes for each source that is wanted, before it is said that there are none


@dataclass(frozen=True)
class Settings:
    sources: int = 200  # scenes of each split that are asked to change
    seed: int = 0  # of what is replaced, and of the scenes that are added

    def __post_init__(self) -> None:
        if self.sources < 1:
            raise UserError(f"sources is {self.sources}; choose at least 1 scene to start from")


@dataclass(frozen=True)
class Change:
    field: str
    value: str
    target: str
    cast: Cast  # what is to be found


@dataclass
class _Database:
    """What has been gathered so far."""

    scenes: list[Scene]
    keys: list[str]
    casts: list[Cast]

    def add(self, key: str, scene: Scene, cast: Cast) -> int:
        self.scenes.append(scene)
        self.keys.append(key)
        self.casts.append(cast)
        return len(self.scenes) - 1

    def gallery(self) -> Gallery:
        return Gallery(tuple(self.scenes), tuple(self.keys), tuple(cast.caption() for cast in self.casts))


def scene_transformations(
    corpus: Scenes.Config,
    settings: Settings = Settings(),  # noqa: B008 (frozen)
) -> tuple[Transformations, Gallery]:
    """What is asked, and the database of it; the same for the same settings."""
    world, database, seed = corpus.world(), _Database([], [], []), settings.seed
    asked: list[Transformation] = []
    wanted: dict[str, tuple[int, Meaning]] = {}  # number and meaning of each caption
    for part, split in SPLIT_OF.items():
        for name, scene, cast, replaced in _sources(world, corpus.seed, split, settings):
            source = database.add(name, scene, cast)
            database.add(f"{name}-again", restaged(cast, world, seed, f"{name}-again"), cast)
            for one in replaced:
                number, _ = wanted.setdefault(one.cast.caption(), (len(wanted), one.cast.meaning()))
                words = (one.field, one.value, one.target)
                asked.append(Transformation(len(asked), source, *words, number, is_test=part == TEST))
                key = f"{name}-{one.field}"
                database.add(key, restaged(one.cast, world, seed, key), one.cast)
    truth = relevance(database.scenes, [meaning for _, meaning in wanted.values()])
    triplets = tuple(cast.parts() for cast in database.casts)
    oracle = Oracle(ORACLE, torch.from_numpy(truth.copy()))
    return (
        Transformations(counted(asked), tuple(database.keys), triplets, tuple(wanted), oracle),
        database.gallery(),
    )


def _sources(
    world: World, corpus_seed: int, split: str, settings: Settings
) -> Iterator[tuple[str, Scene, Cast, list[Change]]]:
    """The first scenes of a split in which something can be replaced: name, scene, what is named of it, changes."""
    found = 0
    for index in range(LOOKED_AT * settings.sources):
        name, scene = f"{split}-{index:07d}", sample_scene(world, corpus_seed, split, index)
        rng = dice(settings.seed, name, "change")
        cast = cast_of(scene, rng)
        replaced = [] if cast is None else list(changes(scene, cast, world, rng))
        if cast is not None and replaced:
            found += 1
            yield name, scene, cast, replaced
        if found == settings.sources:
            return
    raise UserError(
        f"only {found} {split} scenes have a word to replace, not {settings.sources}; ask for fewer sources, or allow "
        "more shapes and colours in these scenes"
    )


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


def changes(scene: Scene, cast: Cast, world: World, rng: Random) -> Iterator[Change]:
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


def _chosen(field: str, value: str, options: Mapping[str, Cast], world: World, rng: Random) -> Iterator[Change]:
    possible = [other for other, cast in options.items() if stageable(cast, world)]
    if possible:
        target = rng.choice(possible)
        yield Change(field, word(field, value), word(field, target), options[target])


def word(field: str, value: str) -> str:
    """The plainest word for a value."""
    if field == COLOUR:
        return COLOURS[value][0][0]
    return (SHAPES if field == SHAPE else RELATIONS)[value][0]
