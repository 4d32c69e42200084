"""The projector of SimCLR on two views of an image: what SLIP puts on the image tower.

Chen et al. 2020, "A Simple Framework for Contrastive Learning", §2.1; Mu et al. 2022, "SLIP", and their code.

    role = MLP(class features)         Linear, BN, ReLU, Linear, BN, ReLU, Linear: w - 4096 - 4096 - 256

Roles image_projected, image_projected2 [N, 256]. It reads the tower's class features, before the readout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from equipoise.heads.head import Head, Sizes, TowerOutputs
from equipoise.heads.mlp import mlp
from equipoise.settings.bounds import bounded


class SimCLRHead(Head):
    roles: ClassVar[tuple[str, ...]] = ("image_projected", "image_projected2")

    @dataclass(frozen=True)
    class Config:
        hidden: int = bounded(4096, 1, 2**16)
        width: int = bounded(256, 1, 2**16)

        def build(self, sizes: Sizes) -> SimCLRHead:
            return SimCLRHead(self, sizes)

    def __init__(self, config: Config, sizes: Sizes):
        super().__init__()
        self.projector = mlp([sizes.image_width, config.hidden, config.hidden, config.width], norm_last=False)

    def forward(self, outputs: TowerOutputs) -> dict[str, Tensor]:
        views = ("image", "image_view2")
        return {
            role: self.projector(outputs.features(view).classes.flatten(1))
            for role, view in zip(self.roles, views, strict=True)
        }
