"""The interface of detectors: regions of a picture with scores, labels and features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from equipoise.data.source import Pair
from equipoise.detection.saliency import salient_boxes
from equipoise.types import UserError


@dataclass(frozen=True)
class DetectedRegions:
    """Regions of one picture, by descending score."""

    boxes: Tensor  # [R, 4] as x0, y0, x1, y1 in [0, 1]
    scores: Tensor  # [R]
    labels: tuple[str, ...] = ()  # one per region, or empty where the detector names no classes
    features: Tensor | None = None  # [R, w], of detectors that return any

    def best(self, most: int, least_score: float) -> DetectedRegions:
        """The `most` best regions of nonzero size whose scores are at least `least_score`."""
        real = (self.scores >= least_score) & (self.boxes[:, 2:] > self.boxes[:, :2]).all(1)
        order = self.scores.argsort(descending=True, stable=True)
        kept = order[real[order]][:most]
        labels = tuple(self.labels[number] for number in kept.tolist()) if self.labels else ()
        features = None if self.features is None else self.features[kept]
        return replace(self, boxes=self.boxes[kept], scores=self.scores[kept], labels=labels, features=features)


class Detector(Protocol):
    """Finds regions in pictures."""

    @property
    def longest(self) -> int:
        """Pixels of the longer side of its input pictures."""
        ...

    def __call__(self, images: Sequence[Tensor], pairs: Sequence[Pair]) -> list[DetectedRegions]:
        """Regions of pictures uint8 [3, H, W], each of its own size, with their pairs of the data."""
        ...


@dataclass(frozen=True)
class SaliencyDetector:
    """Detector of salient boxes; needs no file."""

    cites: ClassVar[tuple[str, ...]] = ("alexe2012objectness", "hou2007spectral")

    most: int = 10
    longest: int = 128

    def __call__(self, images: Sequence[Tensor], pairs: Sequence[Pair]) -> list[DetectedRegions]:
        found = (salient_boxes(image[None], self.most) for image in images)
        return [DetectedRegions(boxes[0], scores[0]) for boxes, scores in found]


@dataclass(frozen=True)
class AnnotationDetector:
    """Detector that returns the boxes and tags of the data's own .json; the score is the area."""

    longest: int = 224

    def __call__(self, images: Sequence[Tensor], pairs: Sequence[Pair]) -> list[DetectedRegions]:
        found = []
        for pair in pairs:
            boxes = torch.tensor(pair.boxes, dtype=torch.float32).view(-1, 4).clamp(0, 1)
            found.append(DetectedRegions(boxes, (boxes[:, 2:] - boxes[:, :2]).prod(1), pair.tags if pair.boxes else ()))
        return found


def relative_boxes(boxes: Tensor, scores: Tensor, size: tuple[int, int], where: str) -> tuple[Tensor, Tensor]:
    """Boxes in [0, 1] of boxes in pixels of a picture of height and width `size`; raises UserError for other shapes."""
    if boxes.ndim != 2 or boxes.shape[1] != 4 or scores.shape != boxes.shape[:1]:
        shapes = f"{list(boxes.shape)} and {list(scores.shape)}"
        raise UserError(f"{where}: boxes and scores of a picture must be [R, 4] and [R], not {shapes}; export it anew")
    sides = torch.tensor([size[1], size[0], size[1], size[0]])
    relative = boxes.float() / sides
    if not (relative.isfinite().all() and scores.isfinite().all()):
        raise UserError(f"{where}: some boxes or scores are not finite; check the detector")
    return relative.clamp(0, 1), scores.float()
