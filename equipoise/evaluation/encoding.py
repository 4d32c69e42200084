"""Points of a source's images, captions and class prompts, encoded a batch at a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import torch
from torch import Tensor

from equipoise.data.source import (
    LabelledSource,
    Source,
    has_features,
    has_modalities,
    is_judged,
    is_labelled,
    names_classes,
)
from equipoise.evaluation.captions.written import source_captions
from equipoise.evaluation.settings import Evaluation
from equipoise.io.progress import Progress
from equipoise.models.captioning import Decoding
from equipoise.models.compatibility import require_compatible
from equipoise.models.model import Model, evaluating
from equipoise.types import UserError

TEXTS_AT_ONCE = 1024
AT_ONCE = 128  # pictures that captions are written of
PLACE = re.compile(r"\{c?\}")


@dataclass(frozen=True)
class Captions:
    """Texts, or features of them, with the number of the image each belongs to."""

    texts: list[str]  # none where there are features
    image_of_text: Tensor  # [M]
    features: tuple[Tensor, Tensor | None] | None = None  # [M, w], or [M, L, w] with a mask

    def points(self, model: Model) -> Tensor:
        """[M, d]; a text that occurs several times is encoded once."""
        distinct, places = self.distinct()
        points = distinct._encode_all(model)
        return points if self.features is not None else points[places.to(points.device)]

    def distinct(self) -> tuple[Captions, Tensor]:
        """Every text once, and which of them each text is [M]; features are taken to differ."""
        if self.features is not None:
            return self, torch.arange(len(self.image_of_text))
        place = {text: number for number, text in enumerate(dict.fromkeys(self.texts))}
        places = torch.tensor([place[text] for text in self.texts], dtype=torch.long)
        return Captions(list(place), torch.arange(len(place))), places

    def _encode_all(self, model: Model) -> Tensor:
        return _encode_shown(model, "texts", len(self.image_of_text), TEXTS_AT_ONCE, partial(self.encode, model))

    def inputs(self, model: Model, numbers: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Some texts as the text encoder reads them, on the model's device."""
        if self.features is None:
            prepared = model.text_encoder.prepare([self.texts[number] for number in numbers], None, model.tokenizer)
        else:
            values, mask = (None if part is None else part[list(numbers)] for part in self.features)
            prepared = model.text_encoder.prepare(values, mask, model.tokenizer)
        ids, mask = prepared
        return ids.to(model.device), mask.to(model.device)

    def encode(self, model: Model, batch: range) -> Tensor:
        """Points of some of them."""
        chosen = slice(batch.start, batch.stop)
        if self.features is None:
            return model.encode_text(self.texts[chosen], TEXTS_AT_ONCE)
        values, mask = self.features
        return model.encode_text(values[chosen], TEXTS_AT_ONCE, None if mask is None else mask[chosen])


class CaptionPoints(NamedTuple):
    """Captions with their points [M, d]."""

    captions: Captions
    points: Tensor


class ClassPoints(NamedTuple):
    """Labelled images [N, d], the number of each one's class [N], and the prompts of all classes [C, T, d]."""

    images: Tensor
    labels: Tensor
    prompts: Tensor


class Encoded:
    """A model's points of a source. Each part is encoded when it is first needed, and once."""

    def __init__(self, model: Model, source: Source, settings: Evaluation):
        self.model, self.source, self.settings = model, source, settings
        self._captions: dict[int, CaptionPoints] = {}

    @cached_property
    def images(self) -> Tensor:
        """[N, d]"""
        return encode_images(self.model, self.source, self.settings.batch_size)

    @property
    def per_image(self) -> int:
        """Captions of each image that retrieval ranks, 0 for all: what the settings say, or what suits the source."""
        return self.settings.captions_of(is_judged(self.source))

    def captions(self, per_image: int) -> CaptionPoints:
        """The first `per_image` captions of every image; 0 takes all."""
        if per_image not in self._captions:
            chosen = captions(self.source, per_image)
            self._captions[per_image] = CaptionPoints(chosen, chosen.points(self.model))
        return self._captions[per_image]

    @cached_property
    def written(self) -> list[str]:
        """A caption of every image, of a model that writes them."""
        require_compatible(self.model, self.source)
        found: list[str] = []
        with Progress(len(self.source), "captions", lines=False) as progress, evaluating(self.model):
            for start in range(0, len(self.source), AT_ONCE):
                indices = range(start, min(start + AT_ONCE, len(self.source)))
                found += source_captions(self.model, self.source, indices, Decoding(), start)
                progress.update(len(found))
        return found

    @cached_property
    def classes(self) -> ClassPoints:
        """The records that carry a label, and the prompts, of a source that has classes."""
        assert is_labelled(self.source)
        numbers, truth = labels(self.source)
        return ClassPoints(self.images[numbers], truth, prompt_points(self.model, self.source))


def encode_images(model: Model, source: Source, batch_size: int, limit: int | None = None) -> Tensor:
    """Points of every image (or the first `limit`) [N, d], encoded a batch at a time."""
    require_compatible(model, source)
    total = len(source) if limit is None else min(limit, len(source))
    return _encode_shown(
        model, "pictures", total, batch_size, lambda batch: encode_image_subset(model, source, batch, batch_size)
    )


def _encode_shown(model: Model, what: str, total: int, size: int, encode: Callable[[range], Tensor]) -> Tensor:
    """`model.encode_all`, with a bar on a terminal."""
    with Progress(total, what, lines=False) as progress:

        def encode_and_show(batch: range) -> Tensor:
            points = encode(batch)
            progress.update(batch.stop)
            return points

        return model.encode_all(total, size, encode_and_show)


def encode_image_subset(model: Model, source: Source, indices: Sequence[int], batch_size: int = 256) -> Tensor:
    """Points of the images with these numbers [N, d]."""
    if has_features(source):
        features, mask = source.image_features(indices)
        return model.encode_image(features, batch_size, mask)
    return model.encode_image(source.images(indices, model.preprocess.side, model.device), batch_size)


def image_inputs(model: Model, source: Source, indices: Sequence[int]) -> tuple[Tensor, ...]:
    """Images with these numbers as the image encoder reads them, on the model's device; a mask where some have one."""
    if has_features(source):
        features, mask = source.image_features(indices)
        prepared = model.image_encoder.prepare(features, model.preprocess)
        return tuple(part.to(model.device) for part in (prepared, mask) if part is not None)
    pictures = source.images(indices, model.preprocess.side, model.device)
    return (model.image_encoder.prepare(pictures, model.preprocess).to(model.device),)


def captions(source: Source, per_image: int) -> Captions:
    """The first `per_image` captions of every image; 0 takes all."""
    if has_features(source) and source.text_width is not None:
        features, mask, image_of_text = source.text_features(range(len(source)), per_image)
        return Captions([], image_of_text, (features, mask))
    pairs = [source.pair(index) for index in range(len(source))]
    kept = [pair.captions[:per_image] if per_image else pair.captions for pair in pairs]
    numbers = [number for number, texts in enumerate(kept) for _ in texts]
    return Captions([text for texts in kept for text in texts], torch.tensor(numbers))


def has_captions(source: Source) -> bool:
    """Whether images have captions of their own; those of a set of classes name the class and nothing else."""
    return not names_classes(source) and not has_modalities(source)


def has_labels(source: Source) -> bool:
    return is_labelled(source) and any(source.pair(index).label for index in range(len(source)))


def labels(source: LabelledSource) -> tuple[list[int], Tensor]:
    """The records that carry a label, and the number of each one's class."""
    named = [(index, label) for index in range(len(source)) if (label := source.pair(index).label) is not None]
    return [index for index, _ in named], torch.tensor([source.class_names.index(str(label)) for _, label in named])


def prompt_points(model: Model, source: LabelledSource) -> Tensor:
    """Points of every class's prompts [C, T, d]."""
    prompts = fill(source.templates, source.class_names)
    texts = [text for several in prompts for text in several]
    return Captions(texts, torch.arange(len(texts))).points(model).view(len(prompts), len(prompts[0]), -1)


def fill(templates: Sequence[str], class_names: Sequence[str]) -> list[list[str]]:
    """Prompts [class][template]; the place of the class's name is written {} or {c}."""
    if not templates or not class_names:
        raise UserError("zero-shot classification needs at least one template and one class name.")
    for template in templates:
        if not PLACE.search(template):
            raise UserError(f'the template "{template}" has no place for the class name: write {{}} where it belongs.')
    return [[name.join(PLACE.split(template)) for template in templates] for name in class_names]


def at_least_float32(points: Tensor) -> Tensor:
    """Points as they are ranked: half precision makes ties out of items that differ."""
    return points if points.dtype == torch.float64 else points.float()
