"""SIMAT on scenes, with an oracle that cannot err: one word of what a scene shows is replaced (`simat_changes.py`).

Sources are scenes of the corpus: those of its validation split for dev, those of its test split for test. The database
holds every source; for every source another scene of just the same things, which whoever ignores the words will find;
and for every transformation a scene that is right. What is right for one is nearly right for the others of its source.
The oracle is the truth of each scene.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from equipoise.data.rng import python_random
from equipoise.data.scenes.corpus import Scenes
from equipoise.data.scenes.gallery import Gallery
from equipoise.data.scenes.language.meaning import Meaning
from equipoise.data.scenes.relevance import relevance
from equipoise.data.scenes.scene import Scene
from equipoise.data.scenes.simat_changes import WordChange, cast_of, changes
from equipoise.data.scenes.simat_restage import Cast, restaged
from equipoise.data.scenes.world import World, sample_scene
from equipoise.data.simat_questions import DEV, TEST, Oracle, Transformation, Transformations, counted
from equipoise.types import UserError

SPLIT_OF = {DEV: "validation", TEST: "test"}
ORACLE = "the truth of scenes"
LOOKED_AT = 20  # scenes for each source that is wanted, before it is said that there are none


@dataclass(frozen=True)
class SimatSettings:
    sources: int = 200  # scenes of each split that are asked to change
    seed: int = 0  # of what is replaced, and of the scenes that are added

    def __post_init__(self) -> None:
        if self.sources < 1:
            raise UserError(f"sources is {self.sources}; choose at least 1 scene to start from")


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
    settings: SimatSettings = SimatSettings(),  # noqa: B008 (frozen)
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
    world: World, corpus_seed: int, split: str, settings: SimatSettings
) -> Iterator[tuple[str, Scene, Cast, list[WordChange]]]:
    """The first scenes of a split in which something can be replaced: name, scene, what is named of it, changes."""
    found = 0
    for index in range(LOOKED_AT * settings.sources):
        name, scene = f"{split}-{index:07d}", sample_scene(world, corpus_seed, split, index)
        rng = python_random(settings.seed, name, "change")
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
