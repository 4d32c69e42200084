"""CoCa's multimodal decoder: words that were read by the text tower look at the picture, block by block.

Yu et al. 2022, "CoCa: Contrastive Captioners are Image-Text Foundation Models", §3.2.

    x ← block_l(x);   x ← cross_l(x, z)        l = 1 ... layers: causal self-attention, then attention to the picture
    h = LN(x)

x [N, L, w] tokens of the text tower, z [N, P, w'] tokens of the image tower, which need not have one width.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor, nn

from equipoise.encoders.cross_attention import CrossBlock
from equipoise.encoders.packing import Layout, Others
from equipoise.encoders.recomputation import Recompute, checkpointed
from equipoise.encoders.transformer import Transformer


class DecoderLayout(Layout, Others, Protocol):
    """A layout of words that look at a picture."""


class MultimodalDecoder(nn.Module):
    def __init__(self, width: int, image_width: int, layers: int, heads: int, mlp_ratio: float, act: str):
        super().__init__()
        self.recompute: Recompute = False
        self.ends_narrowing = mlp_ratio > 1
        self.own = Transformer(width, layers, heads, mlp_ratio, act)
        self.cross = nn.ModuleList(CrossBlock(width, image_width, heads, mlp_ratio, act, layers) for _ in range(layers))
        self.ln_final = nn.LayerNorm(width)

    def keys_values(self, image: Tensor) -> list[Tensor]:
        """What each block asks a picture: keys and values [N, P, 2, h, d] of its tokens [N, P, w']."""
        return [block.keys_values(image) for block in self.cross if isinstance(block, CrossBlock)]

    def forward(self, x: Tensor, image: Sequence[Tensor], layout: DecoderLayout, mask: Tensor | None = None) -> Tensor:
        """h of words in any layout; `image` are `keys_values`, `mask` [N, P] is False where a token is padding."""
        for own, cross, asked in zip(self.own.blocks, self.cross, image, strict=True):
            how = self.recompute if self.training else False
            x = checkpointed(own, x, layout, False, recompute=how, ends_narrowing=self.ends_narrowing)
            x = checkpointed(cross, x, asked, layout, mask, recompute=how, ends_narrowing=self.ends_narrowing)
        return self.ln_final(x)
