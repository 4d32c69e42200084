"""Every protocol that a source of data has the truth for, run on a model.

- `retrieval`: labelled pairs, one caption an image (or as many as asked for), R@k both ways.
- `matching`: where the source can judge any caption of any image, all captions of all levels of detail, ranked against
  the many-to-many truth (mAP@R).
- `zero_shot`: where records carry a class label, classification by prompts.
- `geometry`: how images and their first captions lie (`geometry.py`).
- `shifts`: accuracy on further sets of a few-shot run, and their mean. Such data has classes and no captions of its
  own, so that `zero_shot` (by prompts, whatever was trained) and this are all that is measured of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from equipoise.data.few_shot import SHIFTED, ClassSet
from equipoise.data.source import JudgedSource, LabelledSource, Source, has_features, is_judged, is_labelled
from equipoise.evaluation.chance import geometry_chance, retrieval_chance, zero_shot_chance
from equipoise.evaluation.geometry import geometry
from equipoise.evaluation.retrieval import retrieval
from equipoise.evaluation.zeroshot import AVERAGES, confusion, fill, zero_shot
from equipoise.models.code_features import with_code_features
from equipoise.models.compatibility import require_compatible
from equipoise.models.model import Model
from equipoise.spaces import Space
from equipoise.types import UserError

TEXTS_AT_ONCE = 1024
FEATURES = ("points", "weights")


@dataclass(frozen=True)
class Evaluation:
    cites: ClassVar[tuple[str, ...]] = ("musgrave2020reality", "wang2020uniformity", "liang2022gap")

    features: str = "points"  # or weights: the shares of a code book's codes, once a run is over
    captions: int = 1  # captions of each image that take part in `retrieval`; 0 takes all
    average: str = "similarity"  # zero-shot: average similarities over prompts, or their embeddings
    batch_size: int = 256  # images encoded at once
    chunk: int = 1024  # queries ranked at once

    def __post_init__(self) -> None:
        if self.features not in FEATURES:
            raise UserError(f"features must be one of {', '.join(FEATURES)}, not {self.features!r}")
        if self.average not in AVERAGES:
            raise UserError(f"average must be one of {', '.join(AVERAGES)}, not {self.average!r}")
        for name, least in (("captions", 0), ("batch_size", 1), ("chunk", 1)):
            if getattr(self, name) < least:
                raise UserError(f"{name} must be at least {least}, not {getattr(self, name)}")


@dataclass(frozen=True)
class EvalResult:
    """What one protocol found, beside what guessing would."""

    metrics: dict[str, float]
    chance: dict[str, float]
    confusion: np.ndarray | None = None
    classes: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class Captions:
    """Texts, or features of them, with the number of the image each belongs to."""

    texts: list[str]  # none where there are features
    image_of_text: Tensor  # [M]
    features: tuple[Tensor, Tensor | None] | None = None  # [M, w], or [M, L, w] with a mask

    def points(self, model: Model) -> Tensor:
        return model.encode_all(len(self.image_of_text), TEXTS_AT_ONCE, lambda some: self._encode_some(model, some))

    def _encode_some(self, model: Model, some: range) -> Tensor:
        chosen = slice(some.start, some.stop)
        if self.features is None:
            return model.encode_text(self.texts[chosen], TEXTS_AT_ONCE)
        values, mask = self.features
        return model.encode_text(values[chosen], TEXTS_AT_ONCE, None if mask is None else mask[chosen])


def evaluate(model: Model, source: Source, settings: Evaluation) -> dict[str, EvalResult]:
    """All protocols the source allows, by name."""
    model = with_code_features(model) if settings.features == "weights" else model
    if isinstance(source, ClassSet):
        return classified(model, source, settings)
    images = encode_images(model, source, settings.batch_size)
    said = _Said.of(model, source, settings.captions)
    findings = {"retrieval": _retrieval(model, images, said, source, settings)}
    if is_judged(source):
        findings["matching"] = _matching(model, images, source, settings)
    if is_labelled(source) and any(source.pair(index).label for index in range(len(source))):
        findings["zero_shot"] = _zero_shot(model, images, source, settings)
    if lie := said.geometry(images, model.space):
        findings["geometry"] = EvalResult(lie, geometry_chance())
    return findings


def validate(model: Model, source: Source, settings: Evaluation) -> dict[str, float]:
    """Retrieval and geometry, quick and possible with most sources: how far training has come. Of images that have
    classes and no captions of their own, how many are recognised."""
    if isinstance(source, ClassSet):
        return classified(model, source, settings)["zero_shot"].metrics
    images, said = encode_images(model, source, settings.batch_size), _Said.of(model, source, settings.captions)
    return {**_retrieval(model, images, said, source, settings).metrics, **said.geometry(images, model.space)}


def validation_metrics(source: Source) -> list[str]:
    """What `validate` measures of retrieval, or of classes, by name, without measuring it: any of it can choose the
    best model."""
    if isinstance(source, ClassSet):
        return list(zero_shot_chance(len(source.class_names)))
    truth = np.ones((1, 1), dtype=bool) if is_judged(source) else None
    return list(retrieval_chance(1, torch.zeros(1, dtype=torch.long), truth))


def classified(model: Model, source: ClassSet, settings: Evaluation) -> dict[str, EvalResult]:
    """Accuracy on a set of classes and, where it has any, on its shifted sets."""
    found = {name: _accuracy(model, one, settings) for name, one in (("", source), *source.shifts.items())}
    own = found.pop("")
    if not found:
        return {"zero_shot": own}
    metrics, chance = (
        {f"acc1_{name}": getattr(one, part)["acc1"] for name, one in found.items()} for part in ("metrics", "chance")
    )
    for numbers in (metrics, chance):
        numbers[f"acc1_{SHIFTED}"] = sum(numbers.values()) / len(numbers)
    return {"zero_shot": own, "shifts": EvalResult(metrics, chance)}


def _accuracy(model: Model, source: ClassSet, settings: Evaluation) -> EvalResult:
    return _zero_shot(model, encode_images(model, source, settings.batch_size), source, settings)


def encode_images(model: Model, source: Source, batch_size: int, limit: int | None = None) -> Tensor:
    """Points of every image (or the first `limit`) [N, d], encoded a batch at a time."""
    require_compatible(model, source)
    total = len(source) if limit is None else min(limit, len(source))
    return model.encode_all(total, batch_size, lambda some: encode_some(model, source, some, batch_size))


def encode_some(model: Model, source: Source, indices: Sequence[int], batch_size: int = 256) -> Tensor:
    """Points of these images [N, d]."""
    if has_features(source):
        features, mask = source.image_features(indices)
        return model.encode_image(features, batch_size, mask)
    return model.encode_image(source.images(indices, model.preprocess.size, model.device), batch_size)


def captions(source: Source, per_image: int) -> Captions:
    """The first `per_image` captions of every image; 0 takes all."""
    if has_features(source) and source.text_width is not None:
        features, mask, owners = source.text_features(range(len(source)), per_image)
        return Captions([], owners, (features, mask))
    pairs = [source.pair(index) for index in range(len(source))]
    kept = [pair.captions[:per_image] if per_image else pair.captions for pair in pairs]
    numbers = [number for number, texts in enumerate(kept) for _ in texts]
    return Captions([text for texts in kept for text in texts], torch.tensor(numbers))


@dataclass(frozen=True)
class _Said:
    """Captions with their points."""

    captions: Captions
    points: Tensor  # [M, d]

    @classmethod
    def of(cls, model: Model, source: Source, per_image: int) -> _Said:
        said = captions(source, per_image)
        return cls(said, said.points(model))

    def geometry(self, images: Tensor, space: Space) -> dict[str, float]:
        """Of every image and the first of its captions; nothing where there are not two such pairs."""
        owners = self.captions.image_of_text
        first = torch.diff(owners, prepend=owners.new_tensor([-1])) != 0  # captions come in the order of images
        if int(first.sum()) < 2:
            return {}
        texts = self.points[first.to(self.points.device)]
        return geometry(images[owners[first].to(images.device)], texts, space)


def _retrieval(model: Model, images: Tensor, said: _Said, source: Source, settings: Evaluation) -> EvalResult:
    texts = said.captions.texts
    truth = source.relevance(range(len(source)), texts) if is_judged(source) else None
    return _ranked(model, images, said, truth, settings.chunk)


def _matching(model: Model, images: Tensor, source: JudgedSource, settings: Evaluation) -> EvalResult:
    said = _Said.of(model, source, 0)
    truth = source.relevance(range(len(source)), said.captions.texts)
    return _ranked(model, images, said, truth, settings.chunk)


def _ranked(model: Model, images: Tensor, said: _Said, truth: np.ndarray | None, chunk: int) -> EvalResult:
    owners = said.captions.image_of_text
    metrics = retrieval(images, said.points, model.similarity, owners, truth, chunk)
    return EvalResult(metrics, retrieval_chance(len(images), owners, truth))


def _zero_shot(model: Model, images: Tensor, source: LabelledSource, settings: Evaluation) -> EvalResult:
    labelled, truth = labels(source)
    points = prompt_points(model, source)
    arguments = (images[labelled], truth, points, model.space, settings.average, settings.chunk)
    counts = confusion(*arguments).cpu().numpy()
    classes = source.class_names
    return EvalResult(zero_shot(*arguments), zero_shot_chance(len(classes)), counts, tuple(classes))


def labels(source: LabelledSource) -> tuple[list[int], Tensor]:
    """The records that carry a label, and the number of each one's class."""
    named = [(index, label) for index in range(len(source)) if (label := source.pair(index).label) is not None]
    return [index for index, _ in named], torch.tensor([source.class_names.index(str(label)) for _, label in named])


def prompt_points(model: Model, source: LabelledSource) -> Tensor:
    """Points of every class's prompts [C, T, d]."""
    prompts = fill(source.templates, source.class_names)
    texts = [text for several in prompts for text in several]
    return Captions(texts, torch.arange(len(texts))).points(model).view(len(prompts), len(prompts[0]), -1)
