"""The region branch: regions of an image and their tags, embedded by the same two towers as images and captions.

Gao et al. 2022 (PyramidCLIP), §3.2 and the authors' model file; Gao et al. 2024 (SoftCLIP), Fig. 2.

    regions [N, R, w_r] --linear, no bias--> [N, R, w] --class tokens, ln_pre, last 3 of 12 blocks, ln_post-->
            the image tower's readout --> points        (no positions: a region's box is part of its features)
    a ResNet: [N, R, w] --their mean before them, a LayerNorm of their own, the attention pool alone--> its readout
    tags, comma-joined --> the text tower and its readout --> points

w_r = 2052 in the paper: 2048 of appearance, 4 of the box. Only the linear map is new, with a ResNet the LayerNorm too;
all else is shared, so the branch costs one matrix. What "rear" means is the encoder's to say (`encoders.HasRear`). Text
encoders that read features cannot read tags; image encoders without a rear have no branch.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from equipoise.data.source import REGION_MASK, REGIONS, TAGS, TAGS_MASK
from equipoise.encoders.encoder import HasRear, ImageEncoder
from equipoise.ops.recording import is_recording
from equipoise.settings.bounds import bounded
from equipoise.types import Batch, Features, UserError


class RegionBranch(nn.Module):
    """Linear map of region features into the width of the image tower, whose last blocks read them."""

    @dataclass(frozen=True)
    class Config:
        width: int = bounded(0, 0, 2**20)  # of the regions' features; 0: no branch
        blocks: int = bounded(3, 0, 1000)  # the last ones of a ViT; 0 for a ResNet: the attention pool alone

        @property
        def cites(self) -> tuple[str, ...]:
            return ("gao2022pyramidclip",) if self.width else ()

        def __post_init__(self) -> None:
            if self.width < 0 or self.blocks < 0:
                raise UserError(f"width and blocks must be at least 0, not {self.width} and {self.blocks}")

        def build(self, encoder: ImageEncoder) -> RegionBranch | None:
            if not self.width:
                return None
            if not isinstance(encoder, HasRear):
                raise UserError(
                    f"{type(encoder).__name__} cannot read regions, a ViT or a ResNet can; set regions.width to 0"
                )
            encoder.check_rear(self.blocks)
            return RegionBranch(self, encoder)

    def __init__(self, config: Config, encoder: HasRear):
        super().__init__()
        self.config = config
        self.map = nn.Parameter(encoder.width**-0.5 * torch.randn(config.width, encoder.width))
        self.norm = encoder.rear_norm()

    def forward(self, encoder: HasRear, batch: Batch, classes_only: bool = False) -> Features:
        regions, mask = (required(batch, name) for name in (REGIONS, REGION_MASK))
        if regions.shape[-1] != self.config.width:
            raise UserError(f"regions are {regions.shape[-1]} wide, not {self.config.width}; set regions.width")
        mapped, lengths = regions.to(self.map.dtype) @ self.map, batch.lengths.get(REGION_MASK)
        return encoder.rear(mapped, mask, self.config.blocks, self.norm, classes_only, lengths)


def tags_of(batch: Batch) -> tuple[Tensor, Tensor]:
    """Token ids and mask of the batch's tags, cut to the longest where that may be asked."""
    ids, mask = required(batch, TAGS), required(batch, TAGS_MASK)
    if is_recording():
        return ids, mask
    known = batch.lengths.get(TAGS_MASK)
    longest = int(mask.sum(1).max()) if known is None else known.longest
    return ids[:, :longest], mask[:, :longest]


def required(batch: Batch, name: str) -> Tensor:
    """Side data `name` of the batch; raises UserError where it has none."""
    if name not in batch.side:
        raise UserError(
            f"the objective looks at {name}, but the data has none; choose another guide (objective.guide.name), "
            "or data that has regions (data.detector.regions for scenes, data.regions for files)"
        )
    return batch.side[name]
