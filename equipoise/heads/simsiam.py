"""Projector and predictor of SimSiam on two views of an image.

Chen & He 2021, "Exploring Simple Siamese Representation Learning", §3; sizes of the code of Li et al. 2022, DeCLIP.

    z = projector(vector)      d - 1024 - 1024 - 1024, batch norm behind every map, ReLU behind all but the last
    p = predictor(z)           1024 - 512 - 1024, batch norm and ReLU in the middle

Roles image_projected, image_projected2 (z) and image_predicted, image_predicted2 (p), each [N, 1024]. The vector is
what the readout gives before the space projects it, so that any readout may be trained so, a code book too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from equipoise.heads.head import Head, Sizes, TowerOutputs
from equipoise.heads.mlp import mlp
from equipoise.settings.bounds import bounded


class SimSiamHead(Head):
    roles: ClassVar[tuple[str, ...]] = ("image_projected", "image_projected2", "image_predicted", "image_predicted2")

    @dataclass(frozen=True)
    class Config:
        width: int = bounded(1024, 1, 2**16)
        bottleneck: int = bounded(512, 1, 2**16)

        def build(self, sizes: Sizes) -> SimSiamHead:
            return SimSiamHead(self, sizes)

    def __init__(self, config: Config, sizes: Sizes):
        super().__init__()
        wide = config.width
        self.projector = mlp([sizes.space.dim, wide, wide, wide], norm_last=True)
        self.predictor = mlp([wide, config.bottleneck, wide], norm_last=False)

    def forward(self, outputs: TowerOutputs) -> dict[str, Tensor]:
        projected = [self.projector(outputs.vectors(view)) for view in ("image", "image_view2")]
        return dict(zip(self.roles, [*projected, *map(self.predictor, projected)], strict=True))
