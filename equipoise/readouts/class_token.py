"""The class token through one linear map: CLIP's readout.

Radford et al. 2021, Fig. 3 (`W_i`, `W_t`).

    vector = class @ projection          class [N, 1, w], projection [w, d], no bias

CLIP's ResNets alone have a bias [d] on the image side; `image_bias` is for their weights. On a product of
spheres the vector is cut into m parts: PS(n, m). `class_tokens` has a token for each part instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from equipoise.readouts.readout import Readout, Shared
from equipoise.spaces import Space
from equipoise.types import Features


class ClassToken(Readout):
    @dataclass(frozen=True)
    class Config:
        cites: ClassVar[tuple[str, ...]] = ("radford2021clip",)

        image_bias: bool = False

        def class_tokens(self, space: Space) -> int:
            return 1

        def build(self, width: int, space: Space, tower: str) -> ClassToken:
            return ClassToken(width, space.dim, bias=self.image_bias and tower == "image")

        def shared(self, space: Space) -> None:
            return None

    def __init__(self, width: int, dim: int, bias: bool = False):
        super().__init__()
        self.projection = nn.Parameter(width**-0.5 * torch.randn(width, dim))
        self.bias = nn.Parameter(torch.zeros(dim)) if bias else None

    def forward(self, features: Features, shared: Shared | None = None) -> Tensor:
        vectors = features.classes[:, 0] @ self.projection
        return vectors if self.bias is None else vectors + self.bias
