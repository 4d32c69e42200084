"""Tokens pooled without codes: the control of a code book, which has the same map and no book.

Beside Chen et al. 2023 (FDT), who compare with class tokens alone.

    vector = max_{j real} projection(token_j)        elementwise; or the mean

projection is that of `code_book` (`query_map.py`), one per tower, of patches or words, no class token. What a code book
is better than this by is due to its codes; the rest is due to reading tokens through two more layers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from equipoise.readouts.query_map import PROJECTIONS, query_map
from equipoise.readouts.readout import Readout, Shared, real_tokens
from equipoise.spaces import Space
from equipoise.types import Features, UserError

SETTINGS = {"pooling": ("max", "mean"), "projection": PROJECTIONS}


class Pooled(Readout):
    reads_tokens = True
    reads_classes = False

    @dataclass(frozen=True)
    class Config:
        cites: ClassVar[tuple[str, ...]] = ("chen2023fdt",)

        pooling: str = "max"  # max, mean
        projection: str = "two_layers"  # of tokens: two_layers, one_layer

        def __post_init__(self) -> None:
            for name, known in SETTINGS.items():
                if getattr(self, name) not in known:
                    raise UserError(f"{name} must be one of {', '.join(known)}, not {getattr(self, name)!r}")

        def class_tokens(self, space: Space) -> int:
            return 1  # encoders have it even if nothing reads it

        def build(self, width: int, space: Space, tower: str) -> Pooled:
            return Pooled(self, width, space.dim)

        def shared(self, space: Space) -> None:
            return None

    def __init__(self, config: Config, width: int, dim: int):
        super().__init__()
        self.config = config
        self.projection = query_map(width, dim, config.projection)

    def forward(self, features: Features, shared: Shared | None = None) -> Tensor:
        tokens, mask = real_tokens(features, "pooling")
        vectors = self.projection(tokens)
        if self.config.pooling == "max":
            return vectors.masked_fill(~mask[..., None], -torch.inf).amax(1)
        real = mask[..., None].to(vectors.dtype)
        return (vectors * real).sum(1) / real.sum(1)
