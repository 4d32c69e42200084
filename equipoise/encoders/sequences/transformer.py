"""Transformer over a sequence, read at a class token before it.

Vaswani et al. 2017; Devlin et al. 2019 (BERT) for the class token. Blocks and initialisation are those of the towers
(`encoders/transformer.py`).

    x = [ c, W x_1 + b + PE(1), ..., W x_L + b + PE(L) ];   code = W' LN(blocks(x))_0 + b'

x_t [N, w] values, c a learned token, which every sample has: without any real step the code is that of c alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from equipoise.encoders.packing import Padded
from equipoise.encoders.recomputation import Recompute
from equipoise.encoders.sequences.positions import sinusoidal_positions
from equipoise.encoders.sequences.sequence import SequenceEncoder, SequenceShape
from equipoise.encoders.transformer import Transformer, activation, check_sizes
from equipoise.settings.bounds import bounded


class SequenceTransformer(SequenceEncoder):
    @dataclass(frozen=True)
    class Config:
        cites: ClassVar[tuple[str, ...]] = ("vaswani2017attention",)

        width: int = bounded(64, 1, 2**16)
        layers: int = bounded(2, 1, 1000)
        heads: int = bounded(4, 1, 2**16)
        mlp_ratio: float = bounded(4.0, 0, 64)
        activation: str = "gelu"
        dropout: float = bounded(0.0, 0.0, 0.999)  # of the steps before the blocks

        def __post_init__(self) -> None:
            check_sizes(width=self.width, layers=self.layers, heads=self.heads, mlp_ratio=self.mlp_ratio)
            activation(self.activation)

        def build(self, shape: SequenceShape, dim: int) -> SequenceTransformer:
            return SequenceTransformer(self, shape, dim)

    def __init__(self, config: Config, shape: SequenceShape, dim: int):
        super().__init__(shape, dim)
        self.steps = nn.Linear(shape.width, config.width)
        self.class_token = nn.Parameter(config.width**-0.5 * torch.randn(config.width))
        self.dropout = nn.Dropout(config.dropout)
        self.transformer = Transformer(config.width, config.layers, config.heads, config.mlp_ratio, config.activation)
        self.ln_final = nn.LayerNorm(config.width)
        self.out = nn.Linear(config.width, dim)

    def blocks(self) -> nn.ModuleList:
        return self.transformer.blocks

    def recompute_activations(self, wanted: Recompute) -> None:
        self.transformer.recompute = wanted

    def encode(self, values: Tensor, mask: Tensor) -> Tensor:
        steps = self.steps(values)
        steps = self.dropout(steps + sinusoidal_positions(steps.shape[1], steps.shape[2], like=steps))
        first = self.class_token.to(steps.dtype).expand(len(steps), 1, -1)
        layout = Padded.of(F.pad(mask, (1, 0), value=True), causal=False)
        read = self.transformer(torch.cat([first, steps], dim=1), layout, classes_only=True)
        codes: Tensor = self.out(self.ln_final(read[:, 0]))
        return codes
