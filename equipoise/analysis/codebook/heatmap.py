"""Where in a picture a code finds itself: the relevance of its patches, as a map of colours.

Chen et al. 2023 (FDT), Fig. 4 and App. D. Blue is little relevance, red is much; the maps of one code share a scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt

import numpy as np
import torch
from torch import Tensor

from equipoise.analysis.codebook.usage import IMAGES, towers
from equipoise.data.source import Source
from equipoise.encoders.dense_vit import FinerViT
from equipoise.encoders.vit import ViT
from equipoise.models.model import Model, evaluating
from equipoise.types import Features, UserError

STOPS = ((0.0, (24, 32, 140)), (0.35, (30, 170, 220)), (0.65, (250, 225, 60)), (1.0, (215, 25, 30)))
OPACITY = 0.55


class Heat:
    """Maps of a model; with a `stride`, of patches that overlap."""

    def __init__(self, model: Model, stride: int = 0):
        self.model, (self.tower, _) = model, towers(model)
        self.encoder: torch.nn.Module = model.image_encoder
        self.margin: float | None = None
        if stride:
            if not isinstance(model.image_encoder, ViT):
                raise UserError("--stride is for vision transformers of this package (vit-...); leave it out")
            self.encoder = FinerViT(model.image_encoder, stride)
            self.margin = model.image_encoder.config.patch / 2 / model.image_encoder.image_size

    @torch.no_grad()
    def queries(self, source: Source, indices: Sequence[int]) -> Tensor:
        """What codes are multiplied with, of every place of these pictures [N, S, S, d]."""
        model, parts = self.model, []
        with evaluating(model):
            for start in range(0, len(indices), IMAGES):
                pixels = source.images(indices[start : start + IMAGES], model.preprocess.side, model.device)
                features: Features = self.encoder(model.image_encoder.prepare(pixels, model.preprocess))
                parts.append(self.tower.queries(features)[0])
        queries = torch.cat(parts)
        side = isqrt(queries.shape[1])
        if side * side != queries.shape[1]:
            raise UserError(f"the {queries.shape[1]} tokens of a picture are no square, so they make no map")
        return queries.unflatten(1, (side, side))

    @torch.no_grad()
    def maps(self, queries: Tensor, code: int, size: int) -> np.ndarray:
        """Relevance at every pixel of pictures of `size` pixels [N, size, size]."""
        coarse = (queries @ self.tower.book.codes[code]).double().cpu().numpy()
        return spread_out(coarse, size, 0.5 / coarse.shape[-1] if self.margin is None else self.margin)


def spread_out(maps: np.ndarray, size: int, margin: float) -> np.ndarray:
    """Maps [N, S, S] to [N, size, size], linear between the places, the first `margin` of a side from the edge."""
    last = maps.shape[-1] - 1
    place = ((np.arange(size) + 0.5) / size - margin) / max(1 - 2 * margin, 1e-9) * last
    place = place.clip(0, last)
    low = np.floor(place).astype(int).clip(0, max(last - 1, 0))
    high, share = np.minimum(low + 1, last), place - low
    rows = maps[:, low] * (1 - share)[:, None] + maps[:, high] * share[:, None]
    wide: np.ndarray = rows[:, :, low] * (1 - share) + rows[:, :, high] * share
    return wide


def coloured(pictures: np.ndarray, maps: np.ndarray) -> np.ndarray:
    """Pictures uint8 [N, H, W, 3], grey, under the colours of their maps [N, H, W], from the least to the largest."""
    low, high = maps.min(), maps.max()
    level = (maps - low) / (high - low) if high > low else np.zeros_like(maps)
    at = [stop for stop, _ in STOPS]
    heat = np.stack([np.interp(level, at, [colour[c] for _, colour in STOPS]) for c in range(3)], axis=-1)
    grey = pictures.mean(axis=-1, keepdims=True)
    return (OPACITY * heat + (1 - OPACITY) * grey).round().astype(np.uint8)
