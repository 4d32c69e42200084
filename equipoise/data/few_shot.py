"""A few images of every class, with the classes' names as captions: few-shot classification.

    [data]
    name = "few_shot"
    shots = 16                            images of each class in training; 0 takes all
    validation_shots = 0                  the same of validation, which chooses the best model
    templates = ["a photo of {}"]         captions and prompts; those of the source where none are given

    [data.of]                             a source whose images have classes
    name = "folders"
    train = "train"
    test = "test"

    [data.shifts.sketch]                  and any number of further test sets, for which nothing is trained
    name = "folders"
    test = "sketches"

Where the source is `scenes`, `shifted_by = ["texture", "hue"]` names such sets by what is shifted in them.

Oh et al. 2023, "Geodesic Multi-Modal Mixup for Robust Fine-Tuning", App. A.2. The images of a class are drawn by `seed`
and its name alone, and fewer of them are the first of more: 4 shots are among the 16. Test holds every image that has a
class, and so does validation, unless `validation_shots` says how many: who has 16 pictures of a class to train on has
no thousand to choose by. A shifted set is classified among the classes it has, by the same templates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import torch

from equipoise.data.files import ClassShards, Folders
from equipoise.data.files.classes import checked_templates, filled
from equipoise.data.remap import RemappedSource
from equipoise.data.rng import generator
from equipoise.data.scenes import Scenes
from equipoise.data.source import LabelledSource, Pair, Source, is_labelled
from equipoise.settings.bounds import SEED, within
from equipoise.settings.choice import choice, choices
from equipoise.types import UserError


class WithClasses(Protocol):
    """The settings of a source, some of whose images have classes."""

    def build(self, split: str) -> Source: ...


CLASS_SOURCES: dict[str, type[WithClasses]] = {
    "class_shards": ClassShards,
    "folders": Folders,
    "scenes": Scenes.Config,
}


SHIFTED = "shifted"  # the mean over all shifted sets, where numbers are named after sets


@dataclass(frozen=True)
class FewShotData:
    names_classes: ClassVar[bool] = True
    of: WithClasses = choice(CLASS_SOURCES, "class_shards")  # where the pictures and classes come from
    shots: int = 16  # images of each class in training; 0 takes all
    seed: int = within(SEED, 0)  # draws them
    templates: tuple[str, ...] = ()  # with {} for the class's name; those of the source where none are given
    shifts: Mapping[str, WithClasses] = choices(CLASS_SOURCES, "class_shards")  # further test sets
    shifted_by: tuple[str, ...] = ()  # of scenes: their shifts that are further test sets too
    validation_shots: int = 0  # images of each class in validation; 0 takes all

    def __post_init__(self) -> None:
        for name in ("shots", "validation_shots"):
            if getattr(self, name) < 0:
                raise UserError(
                    f"{name} is {getattr(self, name)}; give the number of images of each class, or 0 for all"
                )
        checked_templates(self.templates, "templates")
        if SHIFTED in self.shifts:
            raise UserError(f'a shifted set may not be called "{SHIFTED}", as their mean is; give it another name')
        if self.shifted_by and not isinstance(self.of, Scenes.Config):
            raise UserError("shifted_by names shifts of scenes, which data.of is not; write tables [data.shifts.NAME]")
        self._test_sets()  # raises UserError for a shift that is none

    def build(self, split: str) -> ClassSet:
        source = _labelled("data.of", self.of, split)
        if len(source.class_names) < 2:
            names = ", ".join(source.class_names)
            raise UserError(f"data.of has one class, {names}, and nothing to tell it from; give at least two")
        named = labels(source)
        counts = {"train": self.shots, "validation": self.validation_shots}
        drawn = split == "train" or bool(counts.get(split))
        chosen = self._drawn(source, named, split, counts[split]) if drawn else list(named)
        return self._class_set(source, chosen, self._shifted() if split == "test" else {})

    def _shifted(self) -> dict[str, ClassSet]:
        """All shifted sets, by name."""
        sources = {name: _labelled(f"data.shifts.{name}", of, "test") for name, of in self._test_sets().items()}
        return {name: self._class_set(source, list(labels(source)), {}) for name, source in sources.items()}

    def _test_sets(self) -> dict[str, WithClasses]:
        drawn = {name: replace(self.of, shift=name) for name in self.shifted_by if isinstance(self.of, Scenes.Config)}
        return {**drawn, **self.shifts}

    def _class_set(self, source: LabelledSource, chosen: list[int], shifts: Mapping[str, ClassSet]) -> ClassSet:
        return ClassSet(source, chosen, checked_templates(self.templates, "templates") or source.templates, shifts)

    def _drawn(self, source: LabelledSource, named: Mapping[int, str], split: str, count: int) -> list[int]:
        """The numbers of `count` images of each class, in their order."""
        what, key = ("training", "shots") if split == "train" else ("validation", "validation_shots")
        own: dict[str, list[int]] = {name: [] for name in source.class_names}
        for index, label in named.items():
            own[label].append(index)
        for name, images in own.items():
            if not images:
                raise UserError(f'the class "{name}" has no {what} images; add some, or leave the class out')
            if len(images) < count:
                raise UserError(
                    f'the class "{name}" has {len(images)} {what} images, fewer than data.{key} = {count}; '
                    "lower it, or add images"
                )
        return sorted(index for name, images in own.items() for index in _draw(images, count, self.seed, key, name))


def _draw(images: Sequence[int], count: int, seed: int, key: str, name: str) -> list[int]:
    order = torch.randperm(len(images), generator=generator(seed, key, name)).tolist()
    return [images[place] for place in (order[:count] if count else order)]


def _labelled(where: str, settings: WithClasses, split: str) -> LabelledSource:
    source = settings.build(split)
    if not is_labelled(source) or not any(source.pair(index).label for index in range(len(source))):
        raise UserError(f"{where}: no image of the {split} data has a class; check its labels")
    return source


def labels(source: LabelledSource) -> dict[int, str]:
    """The images that have a class, by number, in their order."""
    named = ((index, source.pair(index).label) for index in range(len(source)))
    return {index: label for index, label in named if label is not None}


class ClassSet(RemappedSource):
    """Images of a labelled source, each with a class, whose captions say nothing but the class's name.

    It offers images and classes alone: what else is known of the images would say more than their class.
    """

    class_names: tuple[str, ...]
    templates: tuple[str, ...]

    def __init__(
        self,
        source: LabelledSource,
        images: Sequence[int],
        templates: tuple[str, ...],
        shifts: Mapping[str, ClassSet],  # further sets to be tested on
    ):
        super().__init__(source, images, images)
        self.templates, self.shifts = templates, shifts
        self.names_classes = True
        self.relevance = self.batch = self.image_features = self.text_features = None
        self.has_regions = False

    def _with_texts(self, own: Pair, index: int) -> Pair:
        assert own.label is not None
        return Pair(own.key, filled(self.templates, own.label), own.label)
