"""Names for the regions of a picture: the detector's own, from captions, or from a vocabulary that a model matches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from equipoise.data.source import Pair
from equipoise.detection.detector import DetectedRegions
from equipoise.detection.features import cut_out
from equipoise.detection.phrases import Phrases
from equipoise.models.model import Model

Name = Callable[[Pair, Tensor, DetectedRegions], tuple[str, ...]]  # a pair, its picture uint8 [3, H, W] and its regions


def by_label(_pair: Pair, _image: Tensor, found: DetectedRegions) -> tuple[str, ...]:
    """Names by the detector, each once, by descending score."""
    return tuple(dict.fromkeys(found.labels))


@dataclass(frozen=True)
class ByCaption:
    """Names by captions: their noun phrases, whether or not the detector found the things."""

    phrases: Phrases
    most: int

    def __call__(self, pair: Pair, image: Tensor, found: DetectedRegions) -> tuple[str, ...]:
        return self.phrases.of(pair.captions, self.most)


class ByVocabulary:
    """Names by a model: for each region the most similar word of a vocabulary."""

    def __init__(self, model: Model, words: Sequence[str]):
        self.model, self.words = model, tuple(words)
        with torch.no_grad():
            self.points = model.encode_text(list(self.words))

    def __call__(self, pair: Pair, image: Tensor, found: DetectedRegions) -> tuple[str, ...]:
        if not len(found.boxes):
            return ()
        with torch.no_grad():
            similar = self.model.similarity(self.model.encode_image(cut_out(image, found.boxes)), self.points)
        return tuple(dict.fromkeys(self.words[number] for number in similar.argmax(1).tolist()))
