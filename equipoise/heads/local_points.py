"""Points of parts of a sample: patches pooled to a coarse grid, and single words.

Yang et al. 2022, "Vision-Language Pre-Training with Triple Contrastive Learning" (TCL), §3.3 (local mutual
information).

    image_locals [N, S², d]   points of patches, averaged over the cells of an S × S grid (4 × 4), back in the space
    text_locals  [N, L, d]    points of words, without the class token; text_locals_mask [N, L], 1 where one is real

A patch or a word goes through readout and space as if it were its whole sample: with several class tokens it stands
for each of them, and for a code book it is the only token. The mean of unit vectors is no unit vector; the authors
leave it so, here the space maps it back, for in other spaces an average would be no point at all. Texts are padded to
the model's context, so that every process gives rows of one length.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor
from torch.nn import functional as F

from equipoise.heads.head import Head, Sizes, TowerOutputs
from equipoise.settings.bounds import bounded
from equipoise.types import UserError


class LocalPoints(Head):
    roles: ClassVar[tuple[str, ...]] = ("image_locals", "text_locals", "text_locals_mask")
    reads_tokens: ClassVar[tuple[str, ...]] = ("image", "text")

    @dataclass(frozen=True)
    class Config:
        side: int = bounded(4, 1, 2**10)  # cells in a row of the grid

        def build(self, sizes: Sizes) -> LocalPoints:
            return LocalPoints(self, sizes)

    def __init__(self, config: Config, sizes: Sizes):
        super().__init__()
        self.side, self.space, self.context = config.side, sizes.space, sizes.context

    def forward(self, outputs: TowerOutputs) -> dict[str, Tensor]:
        words, real = outputs.token_points("text")
        missing = max(0, self.context - words.shape[1])
        return {
            "image_locals": self.pooled(outputs.token_points("image")[0]),
            "text_locals": F.pad(words, (0, 0, 0, missing)),
            "text_locals_mask": F.pad(real, (0, missing)).to(words.dtype),
        }

    def pooled(self, patches: Tensor) -> Tensor:
        """Points of the cells [N, S², d] of points of patches [N, P, d], which lie row by row."""
        grid = math.isqrt(patches.shape[1])
        if grid**2 != patches.shape[1] or grid % self.side:
            raise UserError(
                f"the image tower gives {patches.shape[1]} patches, which cannot be pooled to {self.side} x "
                f"{self.side} cells; choose objective.local_side that divides their grid, or set local_weight to 0"
            )
        each = grid // self.side
        cells = patches.unflatten(1, (self.side, each, self.side, each)).mean((2, 4))
        return self.space.project(cells.flatten(1, 2))
