"""SigLIP's text tower: bidirectional, padded to the whole context, read at the last place.

Zhai et al. 2023, "Sigmoid Loss for Language Image Pre-Training". Texts have an end token and no start token. Padding is
read as any other token is, which no other tower of ours does, so every text is as long as the context: with less of it
the vectors would be others.

    x = LN(blocks(words + positions))        [N, L, w], L the context
    class = x_L                              mostly a padding token's place
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from equipoise.encoders.encoder import TextEncoder, require_single
from equipoise.encoders.packing import Even
from equipoise.encoders.recomputation import Recompute
from equipoise.encoders.siglip_image import EPSILON
from equipoise.encoders.transformer import Transformer, check_sizes
from equipoise.settings.bounds import bounded
from equipoise.types import Features, UserError


@dataclass(frozen=True)
class ReadLast(Even):
    """Samples of one length, read out at their last token."""

    def read(self, x: Tensor) -> Tensor:
        return x[:, -1:]


class SiglipText(TextEncoder):
    @dataclass(frozen=True)
    class Config:
        cites: ClassVar[tuple[str, ...]] = ("zhai2023siglip",)

        width: int = bounded(768, 1, 2**16)  # of the tokens
        layers: int = bounded(12, 1, 1000)  # transformer blocks
        heads: int = 12  # of attention; they divide the width
        mlp_ratio: float = bounded(4.0, 0, 64)  # width of the MLPs, in widths of the tower
        activation: str = "gelu_tanh"  # of the MLPs: gelu, gelu_tanh, quick_gelu, relu
        pad: int = bounded(1, 0, 2**24)  # the token that fills the context

        def __post_init__(self) -> None:
            check_sizes(width=self.width, layers=self.layers, heads=self.heads, mlp_ratio=self.mlp_ratio)

        def build(self, vocabulary: int, context: int, classes: int = 1) -> SiglipText:
            require_single("SigLIP's text tower", classes)
            return SiglipText(self, vocabulary, context)

    def __init__(self, config: Config, vocabulary: int, context: int):
        super().__init__()
        if config.pad >= vocabulary:
            raise UserError(f"text.pad is {config.pad}, but the vocabulary has {vocabulary} tokens; give one of them")
        self.config, self.width, self.context = config, config.width, context
        self.words = nn.Embedding(vocabulary, config.width)
        self.positions = nn.Parameter(0.01 * torch.randn(context, config.width))
        sizes = (config.width, config.layers, config.heads, config.mlp_ratio, config.activation)
        self.transformer = Transformer(*sizes, eps=EPSILON)
        self.ln_final = nn.LayerNorm(config.width, EPSILON)
        nn.init.normal_(self.words.weight, std=0.02)

    def blocks(self) -> nn.ModuleList:
        return self.transformer.blocks

    def recompute_activations(self, wanted: Recompute) -> None:
        self.transformer.recompute = wanted

    def forward(self, ids: Tensor, mask: Tensor, classes_only: bool = False) -> Features:
        length = ids.shape[1]
        if length > self.context:
            raise UserError(f"texts are {length} tokens wide but the text tower has a context of {self.context}")
        padding = ids.new_full((ids.shape[0], self.context), self.config.pad)
        filled = torch.cat([ids.where(mask, padding[:, :length]), padding], dim=1)[:, : self.context]
        x = self.transformer(self.words(filled) + self.positions, ReadLast(), classes_only)
        x = self.ln_final(x)
        if classes_only:
            return Features(classes=x)
        return Features(classes=x[:, -1:], tokens=x[:, :length], mask=mask)
