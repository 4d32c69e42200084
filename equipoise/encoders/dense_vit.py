"""A vision transformer on overlapping patches: the same weights, more tokens, finer feature maps.

Amir et al. 2021, "Deep ViT Features as Dense Visual Descriptors", §3: the patch map moves by a smaller stride, and the
learned positions are interpolated (bicubic) to the places of the new patches. FDT's pictures are made so (Chen et al.
2023, App. D, stride 4).

The paper stretches the grid of positions over the image. Here a patch gets the position of its own centre (corners are
aligned), so that a patch which was there before has just the position it had, and stride = patch changes nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from equipoise.encoders.vit import ViT
from equipoise.types import Features, UserError


class FinerViT(nn.Module):
    """`vit` with a patch every `stride` pixels, for inference alone."""

    def __init__(self, vit: ViT, stride: int):
        super().__init__()
        allowed = [number for number in range(1, vit.config.patch + 1) if vit.config.patch % number == 0]
        if stride not in allowed:
            choices = ", ".join(map(str, allowed))
            raise UserError(f"a stride of {stride} does not divide patches of {vit.config.patch} px; take {choices}")
        self.vit, self.stride = vit, stride
        self.side = (vit.image_size - vit.config.patch) // stride + 1  # patches per row

    @torch.no_grad()
    def forward(self, images: Tensor) -> Features:
        patches = F.conv2d(images, self.vit.patches.weight, stride=self.stride).flatten(2).mT
        return self.vit.encode_patches(patches + self.positions())

    def positions(self) -> Tensor:
        """Position embeddings of all patches [side², w], row by row."""
        learned = self.vit.positions[self.vit.classes :]
        grid = learned.unflatten(0, (self.vit.image_size // self.vit.config.patch, -1)).permute(2, 0, 1)[None]
        finer = F.interpolate(grid, (self.side, self.side), mode="bicubic", align_corners=True)
        return finer[0].flatten(1).mT
