"""Captions that a model writes of a source's pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from equipoise.data.source import Source, has_features
from equipoise.models.captioning import Decoding, caption_images
from equipoise.models.model import Model


def source_captions(
    model: Model, source: Source, indices: Sequence[int], settings: Decoding, first: int = 0
) -> Iterator[str]:
    """Captions of these pictures, written at once; `first` is the number of the first among all that are captioned."""
    if has_features(source):
        features, mask = source.image_features(indices)
        return caption_images(model, features, settings, len(indices), mask, first)
    images = source.images(indices, model.preprocess.side, model.device)
    return caption_images(model, images, settings, len(indices), None, first)
