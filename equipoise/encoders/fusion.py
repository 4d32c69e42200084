"""Fusion encoder: words that look at the image's patches, block after block, behind both towers.

Li et al. 2021, "Align before Fuse: Vision and Language Representation Learning with Momentum Distillation" (ALBEF),
§3.1: the last six layers of a BERT, with cross-attention to the image tower's output in each of them.

    x ← x + self-attention(LN(x));  x ← x + cross-attention(LN(x), image);  x ← x + MLP(LN(x))        pre-LN
    x ← LN(x + self-attention(x));  x ← LN(x + cross-attention(x, image));  x ← LN(x + MLP(x))        BERT's post-LN

x [N, L, w] class token and words of N texts, image [N, P, s] class token and patches; w is the text tower's width. The
pre-LN form, as everywhere here the default (`norm_first`), ends with one more LayerNorm. Queries come from x, keys and
values from the image through maps of their own, so that widths may differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional as F

from equipoise.encoders.packing import Padded
from equipoise.encoders.transformer import Attention, activation, check_sizes
from equipoise.settings.bounds import bounded
from equipoise.types import UserError


class CrossAttention(nn.Module):
    """Attention of tokens [N, L, w] to those of something else [N, P, s]."""

    def __init__(self, width: int, source: int, heads: int):
        super().__init__()
        if width % heads:
            raise UserError(f"width {width} cannot be split into {heads} heads; choose heads that divide it")
        self.heads = heads
        self.q, self.kv, self.out = nn.Linear(width, width), nn.Linear(source, 2 * width), nn.Linear(width, width)

    def forward(self, x: Tensor, source: Tensor, mask: Tensor) -> Tensor:
        q = self.q(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = self.kv(source).unflatten(-1, (2, self.heads, -1)).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None])
        return self.out(attended.transpose(1, 2).flatten(-2))


class FusionBlock(nn.Module):
    def __init__(self, config: FusionEncoder.Config, width: int, source: int):
        super().__init__()
        self.norm_first, self.act = config.norm_first, activation(config.activation)
        hidden = int(width * config.mlp_ratio)
        self.ln_1, self.attention = nn.LayerNorm(width), Attention(width, config.heads)
        self.ln_2, self.cross = nn.LayerNorm(width), CrossAttention(width, source, config.heads)
        self.ln_3, self.mlp_in, self.mlp_out = nn.LayerNorm(width), nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x: Tensor, layout: Padded, source: Tensor, mask: Tensor) -> Tensor:
        x = self._residual(self.ln_1, lambda y: self.attention(y, layout), x)
        x = self._residual(self.ln_2, lambda y: self.cross(y, source, mask), x)
        return self._residual(self.ln_3, lambda y: self.mlp_out(self.act(self.mlp_in(y))), x)

    def _residual(self, norm: nn.Module, part: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        summed: Tensor = x + part(norm(x)) if self.norm_first else norm(x + part(x))
        return summed


class FusionEncoder(nn.Module):
    @dataclass(frozen=True)
    class Config:
        layers: int = bounded(6, 1, 1000)  # transformer blocks
        heads: int = bounded(12, 1, 2**16)  # of attention
        mlp_ratio: float = bounded(4.0, 0, 64)  # width of the MLPs, in widths of the tower
        activation: str = "gelu"  # of the MLPs: gelu, gelu_tanh, quick_gelu, relu
        norm_first: bool = True  # pre-LN blocks; false: post-LN, as BERT's

        def __post_init__(self) -> None:
            check_sizes(layers=self.layers, heads=self.heads, mlp_ratio=self.mlp_ratio)
            activation(self.activation)

        def build(self, width: int, source: int) -> FusionEncoder:
            return FusionEncoder(self, width, source)

    def __init__(self, config: Config, width: int, source: int):
        super().__init__()
        self.blocks = nn.ModuleList(FusionBlock(config, width, source) for _ in range(config.layers))
        self.ln_final = nn.LayerNorm(width) if config.norm_first else nn.Identity()
        self._initialise(width, config.layers)

    def _initialise(self, width: int, layers: int) -> None:
        """As CLIP's transformers: what goes into the residual stream starts small."""
        small = width**-0.5 * (2 * layers) ** -0.5
        for name, module in self.named_modules():
            if isinstance(module, nn.Linear):
                into_residual = name.endswith((".out", ".mlp_out"))
                nn.init.normal_(module.weight, std=small if into_residual else module.in_features**-0.5)
                nn.init.zeros_(module.bias)

    def forward(self, text: Tensor, text_mask: Tensor, image: Tensor, image_mask: Tensor) -> Tensor:
        """Texts [N, L, w] that have seen their images [N, P, s]: [N, L, w]; masks are True where a token is real."""
        layout = Padded.of(text_mask, causal=False)
        for block in self.blocks:
            text = block(text, layout, image, image_mask)
        fused: Tensor = self.ln_final(text)
        return fused
