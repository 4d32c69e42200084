"""The corpus `scenes`: pictures and captions drawn on demand, each a pure function of (seed, split, index).

Nothing is read from or written to disk. The first caption of a pair is complete, the others follow the weights. Noise
touches the training split alone, so that what is measured on the others is true.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from random import Random

import numpy as np
import torch
from torch import Tensor

from equipoise.data.image_cache import ImageCache
from equipoise.data.rng import python_random
from equipoise.data.scenes.annotation import annotated
from equipoise.data.scenes.detector import Box, SceneDetector, appearance
from equipoise.data.scenes.language.grammar import DETAILS, Caption, describe
from equipoise.data.scenes.language.meaning import true_of
from equipoise.data.scenes.language.naming import with_article
from equipoise.data.scenes.language.parser import parse
from equipoise.data.scenes.language.vocabulary import COLOURS, SHAPES, TEXTURES
from equipoise.data.scenes.noise import CLEAN, Noise, falsified, jittered
from equipoise.data.scenes.relevance import relevance
from equipoise.data.scenes.rendering.render import render
from equipoise.data.scenes.scene import Scene
from equipoise.data.scenes.world import CONTENT, World, sample_scene
from equipoise.data.source import Pair
from equipoise.data.splits import require_split
from equipoise.settings.bounds import SEED, bounded, within
from equipoise.types import UserError

CACHE_LIMIT = 1 << 30  # bytes of images kept for one size
GPU_CACHE_LIMIT = 1 << 28  # that may lie on a GPU, whose memory models want
SHARED = 8  # splits that are kept for whoever asks for the same again, as sweeps and evaluations do
TRIES = 100


class Scenes:
    """One split of the corpus: a judged and labelled source, whose truth is known exactly."""

    @dataclass(frozen=True)
    class Config:
        train_size: int = 20_000  # scenes for training
        validation_size: int = 1_000  # for validation
        test_size: int = 1_000  # for the test
        seed: int = within(SEED, 0)  # of all scenes and captions
        captions: int = bounded(5, 1, 1000)  # per image
        details: tuple[str, ...] = ("complete", "partial", "abstract")  # how much captions may say
        detail_weights: tuple[float, ...] = (0.4, 0.4, 0.2)  # how often each; the first caption is complete
        min_things: int = 1  # in a scene
        max_things: int = 4  # in a scene
        shift: str = "none"  # of the look: none, texture, background, rotation, hue
        zoom: float = 1.0  # how much larger than usual things are drawn
        shapes: tuple[str, ...] = tuple(SHAPES)  # that things may have
        colours: tuple[str, ...] = tuple(COLOURS)  # that things may have
        textures: tuple[str, ...] = tuple(TEXTURES)  # that things may have
        noise: Noise = field(default_factory=Noise)  # what is wrong with the training split
        detector: SceneDetector = field(default_factory=SceneDetector)  # regions and tags of the things
        cache: bool = True  # keep pairs, and images where they fit
        splits: str = CONTENT  # which contents a split may hold: none of another's, or (iid) any

        def __post_init__(self) -> None:
            for name in ("train_size", "validation_size", "test_size", "captions"):
                if getattr(self, name) < 1:
                    raise UserError(f"{name} is {getattr(self, name)}; a corpus needs at least 1")
            if unknown := set(self.details) - set(DETAILS):
                raise UserError(f"details has {sorted(unknown)}; choose among {', '.join(DETAILS)}")
            weights = self.detail_weights
            if len(weights) != len(self.details) or min(weights, default=0) < 0 or sum(weights) <= 0:
                raise UserError(f"detail_weights is {weights}; give one number from 0 up for each of {self.details}")
            if self.noise.shuffled and self.train_size < 2:
                raise UserError("the captions of a single record cannot be shuffled; choose a train_size of 2 or more")
            self.world()

        def world(self) -> World:
            return World(**{part.name: getattr(self, part.name) for part in fields(World)})

        def build(self, split: str) -> Scenes:
            return _shared(self, split) if self.cache else Scenes(self, split)

    def __init__(self, config: Config, split: str) -> None:
        require_split(split)
        self.config = config
        self.class_names = config.shapes
        # an adjective before the noun, so that the article is right for every class
        colours = tuple(with_article(f"{colour} {{}}") for colour in config.colours)
        self.templates = ("a single {}", "a picture of a single {}", "a small {}", "a large {}", *colours)
        self.split = split
        self.noise = config.noise if split == "train" else Noise()
        self._size = getattr(config, f"{split}_size")
        self._world = config.world()
        self._scenes: dict[int, Scene] = {}
        self._pairs: dict[int, Pair] = {}
        self._images: dict[tuple[int, str], ImageCache] = {}
        self._regions: dict[int, tuple[Tensor, Tensor]] = {}
        self._tags: dict[int, tuple[str, ...]] = {}

    def __len__(self) -> int:
        return self._size

    def pair(self, index: int) -> Pair:
        pair = self._pairs.get(index)
        if pair is None:
            pair = self._draw_pair(index)
            if self.config.cache:
                self._pairs[index] = pair
        return pair

    def scene(self, index: int) -> Scene:
        scene = self._scenes.get(index)
        if scene is None:
            scene = self._draw_scene(index)
            if self.config.cache:
                self._scenes[index] = scene
        return scene

    def images(self, indices: Sequence[int], size: int, device: torch.device | str = "cpu") -> Tensor:
        def draw(numbers: Sequence[int]) -> Tensor:
            return render([self.scene(number) for number in numbers], size, device)

        needed = ImageCache.bytes_needed(len(self), size)
        if not self.config.cache or needed > CACHE_LIMIT:
            return draw(indices)
        place = str(device) if needed <= GPU_CACHE_LIMIT else "cpu"
        if (size, place) not in self._images:
            self._images[size, place] = ImageCache(len(self), size, place)
        return self._images[size, place].images(indices, draw).to(device)

    @property
    def has_regions(self) -> bool:
        return self.config.detector.regions > 0

    def regions(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        missing = [index for index in dict.fromkeys(indices) if index not in self._regions]
        made = dict(zip(missing, zip(*self._look_at(missing), strict=True), strict=True)) if missing else {}
        if self.config.cache:
            self._regions |= made
        features, masks = zip(*(made[i] if i in made else self._regions[i] for i in indices), strict=True)
        return torch.stack(features), torch.stack(masks)

    def _look_at(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        detector = self.config.detector
        boxes = [[box for _, box in self._detected(index)] for index in indices]
        return appearance(self.images(indices, detector.size), boxes, detector.regions)

    def tags(self, index: int) -> tuple[str, ...]:
        tags = self._tags.get(index)
        if tags is None:
            tags = self._named(index)
            if self.config.cache:
                self._tags[index] = tags
        return tags

    def _named(self, index: int) -> tuple[str, ...]:
        names, rng = self.pair(index).tags, self._random(index, "tags")
        known = [f"{colour} {shape}" for colour in self.config.colours for shape in self.config.shapes]
        return tuple(self.config.detector.named(names[number], known, rng) for number, _ in self._detected(index))

    def _detected(self, index: int) -> list[tuple[int, Box]]:
        return self.config.detector.found(self.pair(index).boxes, self._random(index, "detector"))

    def relevance(self, indices: Sequence[int], captions: Sequence[str]) -> np.ndarray:
        return relevance([self.scene(index) for index in indices], [parse(caption) for caption in captions])

    def key(self, index: int) -> str:
        return f"{self.split}-{index:07d}"

    def _random(self, index: int, purpose: str) -> Random:
        return python_random(self.config.seed, self.split, index, purpose)

    def noise_kind(self, index: int) -> str:
        kind = self.noise.kind(self._random(index, "noise"))
        return CLEAN if kind == "near_duplicates" and index == 0 else kind  # nothing is earlier than the first

    def _draw_scene(self, index: int) -> Scene:
        if not 0 <= index < len(self):
            raise IndexError(f"{self.split} has {len(self)} scenes; there is no number {index}")
        if self.noise_kind(index) == "near_duplicates":
            return jittered(self.scene(self._earlier(index)), self._random(index, "jitter"))
        return sample_scene(self._world, self.config.seed, self.split, index)

    def _earlier(self, index: int) -> int:
        return self._random(index, "duplicate of").randrange(index)

    def _draw_pair(self, index: int) -> Pair:
        scene, kind, other = self.scene(index), self.noise_kind(index), None
        if kind == "shuffled":
            other, captions = self._foreign_captions(index)
        else:
            captions = self._captions(index, false=kind == "wrong_attribute")
            other = self._earlier(index) if kind == "near_duplicates" else None
        return annotated(self.key(index), scene, captions, kind, None if other is None else self.key(other))

    def _captions(self, index: int, false: bool = False) -> list[Caption]:
        """Captions of the scene itself, different from each other where that takes no more than a few tries."""
        scene, rng, config = self.scene(index), self._random(index, "captions"), self.config
        make = falsified if false else describe
        captions = [make(scene, rng, "complete")]
        for detail in rng.choices(config.details, config.detail_weights, k=config.captions - 1):
            for _ in range(4):
                caption = make(scene, rng, detail)
                if all(caption.text != other.text for other in captions):
                    break
            captions.append(caption)
        return captions

    def _foreign_captions(self, index: int) -> tuple[int, list[Caption]]:
        """The captions of another record, whose complete one is false here."""
        rng = self._random(index, "shuffled with")
        for _ in range(TRIES):
            other = rng.randrange(len(self) - 1)
            other += other >= index
            captions = self._captions(other)
            if not true_of(captions[0].meaning, self.scene(index)):
                return other, captions
        raise UserError(
            f"{self.key(index)} finds no caption that is false of it; choose a larger train_size or less noise"
        )


@lru_cache(SHARED)
def _shared(config: Scenes.Config, split: str) -> Scenes:
    return Scenes(config, split)
