"""Text transformers: CLIP's causal one, read at the end token, and a bidirectional one, read at a class token.

Radford et al. 2021, §2.4 (causal, end-of-text readout); Devlin et al. 2019, BERT (bidirectional, class token first),
here with pre-LN blocks. Positions are learned; a batch is only as wide as its longest caption, which changes no
result: causal attention never looks right, and the bidirectional tower masks padding.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from equipoise.encoders.encoder import TextEncoder
from equipoise.encoders.transformer import Transformer, check_sizes
from equipoise.types import Features, UserError


class TextTransformer(TextEncoder):
    @dataclass(frozen=True)
    class Config:
        causal: bool = True
        width: int = 512
        layers: int = 12
        heads: int = 8
        mlp_ratio: float = 4.0
        activation: str = "gelu"

        def __post_init__(self) -> None:
            check_sizes(width=self.width, layers=self.layers, heads=self.heads, mlp_ratio=self.mlp_ratio)

        @property
        def cites(self) -> tuple[str, ...]:
            return ("radford2021clip",) if self.causal else ("devlin2019bert",)

        def build(self, vocabulary: int, context: int) -> TextTransformer:
            return TextTransformer(self, vocabulary, context)

    def __init__(self, config: Config, vocabulary: int, context: int):
        super().__init__()
        self.config, self.width, self.context = config, config.width, context
        self.words = nn.Embedding(vocabulary, config.width)
        self.positions = nn.Parameter(0.01 * torch.randn(context, config.width))
        self.transformer = Transformer(config.width, config.layers, config.heads, config.mlp_ratio, config.activation)
        self.ln_final = nn.LayerNorm(config.width)
        nn.init.normal_(self.words.weight, std=0.02)

    def blocks(self) -> nn.ModuleList:
        return self.transformer.blocks

    def recompute_activations(self, wanted: bool) -> None:
        self.transformer.recompute = wanted

    def forward(self, tokens: Tensor, mask: Tensor) -> Features:
        length = tokens.shape[1]
        if length > self.context:
            raise UserError(f"texts are {length} tokens wide but the text tower has a context of {self.context}")
        x = self.words(tokens) + self.positions[:length]
        if self.config.causal:
            x = self.ln_final(self.transformer(x, causal=True))
            last = mask.sum(1) - 1
            return Features(classes=x[torch.arange(len(x), device=x.device), last][:, None], tokens=x, mask=mask)
        x = self.ln_final(self.transformer(x, mask=mask[:, None, None, :]))
        return Features(classes=x[:, :1], tokens=x[:, 1:], mask=mask[:, 1:])
