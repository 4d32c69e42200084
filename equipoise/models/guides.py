"""The guide branch: regions of an image and their tags, embedded by the same two towers as images and captions.

Gao et al. 2022 (PyramidCLIP), §3.2 and the authors' model file; Gao et al. 2024 (SoftCLIP), Fig. 2.

    regions [N, R, w_r] --linear, no bias--> [N, R, w] --class tokens, ln_pre, last 3 of 12 blocks, ln_post-->
            the image tower's readout --> points        (no positions: a region's box is part of its features)
    tags, comma-joined --> the text tower and its readout --> points

w_r = 2052 in the paper: 2048 of appearance, 4 of the box. Only the linear map is new; all else is shared, so the branch
costs one matrix. Text encoders that read features cannot read tags; image encoders without a `rear` have no branch.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from equipoise.data.source import REGION_MASK, REGIONS, TAGS, TAGS_MASK
from equipoise.encoders import ViT
from equipoise.encoders.encoder import ImageEncoder
from equipoise.types import Batch, Features, UserError


class Regions(nn.Module):
    @dataclass(frozen=True)
    class Config:
        width: int = 0  # of the regions' features; 0: no branch
        blocks: int = 3  # the last ones of the image tower

        @property
        def cites(self) -> tuple[str, ...]:
            return ("gao2022pyramidclip",) if self.width else ()

        def __post_init__(self) -> None:
            if self.width < 0 or self.blocks < 1:
                raise UserError(f"width must be at least 0 and blocks at least 1, not {self.width} and {self.blocks}")

        def build(self, encoder: ImageEncoder) -> Regions | None:
            if not self.width:
                return None
            if not isinstance(encoder, ViT):
                raise UserError(f"{type(encoder).__name__} cannot read regions, only a ViT can; set regions.width to 0")
            if self.blocks > encoder.config.layers:
                raise UserError(f"blocks is {self.blocks}, but the image tower has {encoder.config.layers}")
            return Regions(self, encoder.width)

    def __init__(self, config: Config, width: int):
        super().__init__()
        self.config = config
        self.map = nn.Parameter(width**-0.5 * torch.randn(config.width, width))

    def forward(self, encoder: ViT, batch: Batch, classes_only: bool = False) -> Features:
        regions, mask = (required(batch, name) for name in (REGIONS, REGION_MASK))
        if regions.shape[-1] != self.config.width:
            raise UserError(f"regions are {regions.shape[-1]} wide, not {self.config.width}; set regions.width")
        return encoder.rear(regions.to(self.map.dtype) @ self.map, mask, self.config.blocks, classes_only)


def tags_of(batch: Batch) -> tuple[Tensor, Tensor]:
    """Token ids and mask, no wider than the longest."""
    ids, mask = required(batch, TAGS), required(batch, TAGS_MASK)
    longest = int(mask.sum(1).max())
    return ids[:, :longest], mask[:, :longest]


def required(batch: Batch, name: str) -> Tensor:
    if name not in batch.side:
        raise UserError(
            f"the objective looks at {name}, but the data has none; choose another guide (objective.guide.name), "
            "or data that has regions (data.detector.regions for scenes, data.regions for files)"
        )
    return batch.side[name]
