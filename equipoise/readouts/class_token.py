"""The class token through one linear map: CLIP's readout.

Radford et al. 2021, Fig. 3 (`W_i`, `W_t`).

    vector = class @ projection          class [N, 1, w], projection [w, d], no bias
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from equipoise.types import Features


class ClassToken(nn.Module):
    reads_tokens: ClassVar[bool] = False  # classes alone, which saves the encoders work

    @dataclass(frozen=True)
    class Config:
        cites: ClassVar[tuple[str, ...]] = ("radford2021clip",)

        def build(self, width: int, dim: int) -> ClassToken:
            return ClassToken(width, dim)

    def __init__(self, width: int, dim: int):
        super().__init__()
        self.projection = nn.Parameter(width**-0.5 * torch.randn(width, dim))

    def forward(self, features: Features) -> Tensor:
        return features.classes[:, 0] @ self.projection
