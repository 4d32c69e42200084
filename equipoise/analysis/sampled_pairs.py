"""Pairs drawn from a source, as points: what most of the laboratory looks at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from equipoise.data.rng import generator
from equipoise.data.source import Source, has_features
from equipoise.evaluation.encoding import encode_image_subset
from equipoise.models.compatibility import require_compatible
from equipoise.models.model import Model
from equipoise.types import UserError

ENCODED_AT_ONCE = 256


class SampledPoints(NamedTuple):
    """Pair i is images[i] and texts[i]."""

    images: Tensor  # [N, d]
    texts: Tensor  # [N, d]


def draw_points(model: Model, source: Source, count: int, seed: int) -> SampledPoints:
    """`count` pairs drawn without putting back, each image with its first caption, encoded as for evaluation."""
    if not 2 <= count <= len(source):
        raise UserError(f"{count:,} pairs cannot be drawn from data of {len(source):,}; choose from 2 to that many")
    require_compatible(model, source)
    drawn = torch.randperm(len(source), generator=generator(seed, "pairs"))[:count].tolist()
    parts = [drawn[start : start + ENCODED_AT_ONCE] for start in range(0, count, ENCODED_AT_ONCE)]
    images = torch.cat([encode_image_subset(model, source, part) for part in parts])
    return SampledPoints(images, torch.cat([_texts(model, source, part) for part in parts]))


def _texts(model: Model, source: Source, indices: list[int]) -> Tensor:
    if has_features(source) and source.text_width is not None:
        values, mask, owners = source.text_features(indices, 1)
        if len(owners) != len(indices):
            raise UserError("some images of this data have no text features; give data in which every image has one")
        return model.encode_text(values, mask=mask)
    pairs = [source.pair(index) for index in indices]
    for pair in pairs:
        if not pair.captions:
            raise UserError(f"record {pair.key} has no caption; give it one or leave it out")
    return model.encode_text([pair.captions[0] for pair in pairs])


def tiles(rows: int, cols: int, side: int) -> Iterator[tuple[slice, slice]]:
    """Blocks that cover a matrix of rows × cols."""
    for r in range(0, rows, side):
        for c in range(0, cols, side):
            yield slice(r, min(r + side, rows)), slice(c, min(c + side, cols))


def on_diagonal(rows: slice, cols: slice, device: torch.device) -> Tensor:
    """Bool [R, C]: where the block lies on the diagonal of the whole matrix."""
    numbers = torch.arange(max(rows.stop, cols.stop), device=device)
    return numbers[rows, None] == numbers[cols]
