"""What every source of image-text pairs offers, whether it reads files or draws its pictures itself.

A source knows its pairs by number. Everything but the pixels is cheap and comes one pair at a time; pixels come in
batches, at the size asked for, on the device asked for. A source that knows which captions are true of which images
says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.types import Batch

IMAGE_MASK = "image_mask"  # in a batch's `side`: bool [N, P], True where a token of an image is real
REGIONS, REGION_MASK = "regions", "region_mask"  # there too: [N, R, w] features of parts of an image, bool [N, R]
TAGS, TAGS_MASK = "tags", "tags_mask"  # and their names as token ids [N, L], bool [N, L]
IMAGE_VIEW2 = "image_view2"  # there too, where an objective asks: [N, 3, H, W] another crop (data/sample_views.py)
IMAGE_PARTNER = "image_partner"  # and the picture that stands there in the batch read backwards [N, 3, H, W]
IMAGE_MIXED = "image_mixed"  # what an objective makes of both
PIXELS = (IMAGE_VIEW2, IMAGE_PARTNER, IMAGE_MIXED)  # too much to send around
TEXT_VIEW2, TEXT_VIEW2_MASK = "text_view2", "text_view2_mask"  # a changed caption [N, L], bool [N, L]
MASKED_WORDS = "masked_words"  # a view as well, of words that are hidden: bool [N, L], and what they were [N, L]
HIDDEN, ANSWERS = "hidden", "answers"
# in a batch's `common`, where an objective asks for the view: token ids [C, L] of what is said of every class, bool
# [C, L], and the classes' names [C] as fingerprints, equal to `label` in `side` for samples of a class
# (data/side_data.py)
CLASS_PROMPTS, CLASS_PROMPTS_MASK, CLASSES = "class_prompts", "class_prompts_mask", "classes"
HAS = "has_"  # before such a name: bool [N], False where a sample has none of it


@dataclass(frozen=True)
class Pair:
    """One image with its captions: everything but the pixels."""

    key: str
    captions: tuple[str, ...]
    label: str | None = None
    tags: tuple[str, ...] = ()
    boxes: tuple[tuple[float, float, float, float], ...] = ()  # x0, y0, x1, y1 in [0, 1], one a tag
    truth: Mapping[str, Any] = field(default_factory=dict)  # what is known of the pair beyond its captions, JSON-able


@runtime_checkable
class Source(Protocol):
    def __len__(self) -> int: ...

    def pair(self, index: int) -> Pair: ...

    def images(self, indices: Sequence[int], size: int, device: torch.device | str = "cpu") -> Tensor:
        """The images as uint8 [N, 3, size, size]."""
        ...


Boxes = Callable[[Tensor], Tensor]  # heights and widths [N, 2] -> crop boxes [N, 4] as x0, y0, x1, y1 in pixels


@runtime_checkable
class CroppingSource(Source, Protocol):
    """A source whose pictures have sizes of their own: it cuts a box out of each and resizes just that."""

    @property
    def max_bad(self) -> float:
        """The share of records that may be unreadable before that is an error."""
        ...

    def crops(self, indices: Sequence[int], size: int, boxes: Boxes) -> Tensor:
        """The parts of the images that `boxes` asks for, as uint8 [N, 3, size, size]. Raises BadRecords."""
        ...


@runtime_checkable
class JudgedSource(Source, Protocol):
    """A source that can judge any caption against any of its images."""

    def relevance(self, indices: Sequence[int], captions: Sequence[str]) -> np.ndarray:
        """Bool [indices, captions]: whether each caption is true of each image."""
        ...


@runtime_checkable
class LabelledSource(Source, Protocol):
    """A source some of whose pairs carry a label, one of `class_names`; a template has {} for the name."""

    class_names: tuple[str, ...]
    templates: tuple[str, ...]


@runtime_checkable
class RegionSource(Source, Protocol):
    """A source that knows parts of its images, as a detector finds them, and names for them."""

    @property
    def has_regions(self) -> bool: ...

    def regions(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Features [N, R, w] and which are real, bool [N, R]; none of an image that no regions are known of."""
        ...

    def tags(self, index: int) -> tuple[str, ...]:
        """The regions' names; none where none are known."""
        ...


@runtime_checkable
class BatchSource(Source, Protocol):
    """A source that makes its batches itself, for it has no pictures to crop."""

    def batch(self, indices: Sequence[int], draws: Sequence[float], tokens: CaptionTokenizer) -> Batch:
        """The samples, each with that one of its texts which its draw from [0, 1) picks."""
        ...


@runtime_checkable
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
