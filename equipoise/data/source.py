"""What every source of image-text pairs offers, whether it reads files or draws its pictures itself.

A source knows its pairs by number. A pair comes without its pixels; pixels come in batches, at the size and on the
device requested. A source may offer more, one protocol per thing:

    CroppingSource   records with images of their own sizes      `can_crop`
    JudgedSource     whether any caption is true of any image    `is_judged`
    LabelledSource   classes                                     `is_labelled`
    RegionSource     regions of images and their tags            `has_regions`
    BatchSource      batches, instead of pixels                  `makes_batches`
    FeatureSource    features, instead of pixels                 `has_features`
    ModalSource      any number of named modalities              `has_modalities`
    DigestSource     a digest of each image's file               `has_digests`
    ClassCaptions    captions that only name a class             `names_classes`
    pictures         pictures to look at beside features         `has_pictures`

Each is recognised by its function, never by its class: the members of a protocol that a source does not offer are
missing, or None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeGuard, TypeVar

import numpy as np
import torch
from torch import Tensor

from equipoise.data.encoded_image import EncodedImage
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.types import Batch

IMAGE_MASK = "image_mask"  # in a batch's `side`: bool [N, P], True where a token of an image is real
REGIONS, REGION_MASK = "regions", "region_mask"  # there too: [N, R, w] features of parts of an image, bool [N, R]
TAGS, TAGS_MASK = "tags", "tags_mask"  # and their names as token ids [N, L], bool [N, L]
IMAGE_VIEW2 = "image_view2"  # there too, where an objective asks: [N, 3, H, W] another crop (data/sample_views.py)
IMAGE_PARTNER = "image_partner"  # and the image at that place of the reversed batch [N, 3, H, W]
IMAGE_MIXED = "image_mixed"  # what an objective makes of both
PIXELS = (IMAGE_VIEW2, IMAGE_PARTNER, IMAGE_MIXED)  # too much to send around
TEXT_VIEW2, TEXT_VIEW2_MASK = "text_view2", "text_view2_mask"  # a changed caption [N, L], bool [N, L]
OTHER_CAPTION = "other_caption"  # a view that is called text_view2 too: another caption of the same record
MASKED_WORDS = "masked_words"  # a view as well, of words that are hidden: bool [N, L], and what they were [N, L]
HIDDEN, ANSWERS = "hidden", "answers"
MASKED_TEXT = "masked_text"  # a view too: the caption with hidden words [N, L], beside the caption as it is
# in a batch's `common`, where an objective asks for the view: token ids [C, L] of every class's prompt, bool
# [C, L], and the classes' names [C] as fingerprints, equal to `label` in `side` for samples of a class
# (data/side_data.py)
CLASS_PROMPTS, CLASS_PROMPTS_MASK, CLASSES = "class_prompts", "class_prompts_mask", "classes"
# there too, of named modalities: [N, w] or [N, L, w] numbers, bool [N, L] which steps are real, bool [N] who has it,
# and what is to be told of a sample, the number of its class or a number
MODALITY, MODALITY_MASK, HAS_MODALITY = "modality/", "modality_mask/", "has_modality/"
CLASS, VALUE = "class", "value"
HAS = "has_"  # before such a name: bool [N], False where a sample has none of it


Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Pair:
    """One image with its captions: everything but the pixels."""

    key: str
    captions: tuple[str, ...]
    label: str | None = None
    tags: tuple[str, ...] = ()
    boxes: tuple[tuple[float, float, float, float], ...] = ()  # x0, y0, x1, y1 in [0, 1], one per tag
    truth: Mapping[str, Any] = field(default_factory=dict)  # what is known of the pair beyond its captions, JSON-able


@dataclass(frozen=True)
class Record:
    """A record as it was read, once: its pair, and its image still encoded, from which any number of crops are cut."""

    pair: Pair
    image: EncodedImage


class Source(Protocol):
    def __len__(self) -> int: ...

    def pair(self, index: int) -> Pair: ...

    def images(self, indices: Sequence[int], size: int, device: torch.device | str = "cpu") -> Tensor:
        """The images as uint8 [N, 3, size, size]."""
        ...


class CroppingSource(Source, Protocol):
    """A source whose images have sizes of their own, so that crops are cut from the encoded image."""

    @property
    def max_bad(self) -> float:
        """The share of records that may be unreadable before that is an error."""
        ...

    def open(self, index: int) -> Record:
        """Reads a record and the header of its image. Raises BadRecord."""
        ...


class JudgedSource(Source, Protocol):
    """A source that can judge any caption against any of its images."""

    def relevance(self, indices: Sequence[int], captions: Sequence[str]) -> np.ndarray:
        """Bool [indices, captions]: whether each caption is true of each image."""
        ...


class LabelledSource(Source, Protocol):
    """A source some of whose pairs carry a label, one of `class_names`; a template has {} for the name."""

    class_names: tuple[str, ...]
    templates: tuple[str, ...]


class RegionSource(Source, Protocol):
    """A source that knows regions of its images, as a detector finds them, and names for them."""

    @property
    def has_regions(self) -> bool: ...

    def regions(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Features [N, R, w] and which are real, bool [N, R]; none of an image that no regions are known of."""
        ...

    def tags(self, index: int) -> tuple[str, ...]:
        """The regions' names; none where none are known."""
        ...


class BatchSource(Source, Protocol):
    """A source that makes its batches itself, for it has no pictures to crop."""

    def batch(self, indices: Sequence[int], draws: Sequence[float], tokens: CaptionTokenizer) -> Batch:
        """The samples, each with that one of its texts which its draw from [0, 1) picks."""
        ...


class FeatureSource(BatchSource, Protocol):
    """A source of features instead of pictures, and instead of texts too where `text_width` is a number."""

    @property
    def image_width(self) -> int: ...

    @property
    def text_width(self) -> int | None: ...

    def image_features(self, indices: Sequence[int]) -> tuple[Tensor, Tensor | None]:
        """Vectors [N, w] without a mask, or tokens [N, P, w] with theirs."""
        ...

    def text_features(self, indices: Sequence[int], per_image: int = 0) -> tuple[Tensor, Tensor | None, Tensor]:
        """The first `per_image` texts (0: all) of the images, as [M, w] or [M, L, w], a mask of tokens, and for each
        text the place of its image among `indices` [M]."""
        ...


class ModalSource(BatchSource, Protocol):
    """A source of samples that were recorded in several ways, by name: audio, video, ... A sample may lack some."""

    @property
    def modalities(self) -> Mapping[str, int]:
        """Widths of the modalities by name."""
        ...

    @property
    def lengths(self) -> Mapping[str, int]:
        """Steps of their longest sequences, 1 of vectors."""
        ...

    @property
    def outputs(self) -> int:
        """Numbers that tell a sample's label: as many as there are classes, 1 for a number, 0 without labels."""
        ...

    def present(self, name: str) -> Tensor:
        """Which samples have a modality, bool [N]."""
        ...

    @property
    def labels(self) -> Tensor:
        """Numbers of classes [N], or numbers [N]."""
        ...


class DigestSource(Source, Protocol):
    """A source that can tell equal pictures."""

    def picture_digest(self, index: int) -> bytes:
        """A digest of the image as its file holds it. Raises BadRecord."""
        ...


class ClassCaptions(LabelledSource, Protocol):
    """A labelled source whose captions name the class and say nothing else, so they are the same for many images."""

    names_classes: bool


def can_crop(source: Source) -> TypeGuard[CroppingSource]:
    return _offers(source, "open")


def is_judged(source: Source) -> TypeGuard[JudgedSource]:
    return _offers(source, "relevance")


def is_labelled(source: Source) -> TypeGuard[LabelledSource]:
    return _offers(source, "class_names") and _offers(source, "templates")


def has_regions(source: Source) -> TypeGuard[RegionSource]:
    return _offers(source, "regions") and bool(getattr(source, "has_regions", False))


def makes_batches(source: Source) -> TypeGuard[BatchSource]:
    return _offers(source, "batch")


def has_features(source: Source) -> TypeGuard[FeatureSource]:
    return _offers(source, "image_features")


def has_pictures(source: Source) -> bool:
    """Whether there is something to look at: pictures, or pictures beside features (`features/pictured.py`)."""
    return not has_features(source) or _offers(source, "pictures")


def has_modalities(source: Source) -> TypeGuard[ModalSource]:
    return _offers(source, "modalities")


def has_digests(source: Source) -> TypeGuard[DigestSource]:
    return _offers(source, "picture_digest")


def names_classes(source: Source) -> TypeGuard[ClassCaptions]:
    return bool(getattr(source, "names_classes", False))


def inner_source(source: Any, kind: type[Kind]) -> Kind | None:
    """The source of that kind that this one is made of; None where there is none."""
    while source is not None and not isinstance(source, kind):
        source = vars(source).get("source")
    return source


def _offers(source: Source, member: str) -> bool:
    return getattr(source, member, None) is not None
