"""CLIP's attention pool: one layer of attention whose query is the mean of all tokens, instead of mean pooling.

Radford et al. 2021, §2.4, "transformer-style" multi-head QKV attention conditioned on the global average of the image.

    x = [mean(tokens), tokens] + positions        [N, 1 + L, w]
    class = attention of x_0 to x                  [N, 1, w]; token features, where requested, are those of x_1 ... x_L

CLIP's layer ends in a linear map to the embedding, with a bias b. Here that map is the readout's, which has one only
for weights that come with it (`readout.image_bias`), and nothing is lost without: the weights of attention sum to one,
so what is added to every value is added to the class, and the bias of the values does the work of b. Queries of all
tokens give token features in the space of the class feature, for readouts of tokens.

N pictures, L places or regions, w features, h heads.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from equipoise.encoders.packing import Even, Packed
from equipoise.encoders.transformer import BareAttention
from equipoise.types import Features, Lengths


class AttentionPool(nn.Module):
    def __init__(self, places: int, width: int, heads: int):
        super().__init__()
        self.positions = nn.Parameter(width**-0.5 * torch.randn(1 + places, width))
        self.attention = BareAttention(width, heads)
        nn.init.normal_(self.attention.qkv.weight, std=width**-0.5)
        nn.init.zeros_(self.attention.qkv.bias)

    def forward(self, tokens: Tensor, classes_only: bool = False) -> Features:
        """Pool the places of a picture [N, L, w], in their order."""
        x = torch.cat([tokens.mean(dim=1, keepdim=True), tokens], dim=1) + self.positions
        if classes_only:
            return Features(classes=self.attention.read(x, Even()))
        x = self.attention(x, Even())
        classes, attended = x[:, :1], x[:, 1:]
        real = torch.ones(attended.shape[:2], dtype=torch.bool, device=x.device)
        return Features(classes, attended, real, at_least=attended.shape[1])

    def without_positions(
        self,
        tokens: Tensor,
        mask: Tensor,
        norm: nn.Module,
        classes_only: bool = False,
        lengths: Lengths | None = None,
    ) -> Features:
        """Pool tokens without positions, some of them padding; a sample without real tokens is pooled from zero."""
        real = mask[..., None].to(tokens.dtype)
        mean = (tokens * real).sum(dim=1, keepdim=True) / real.sum(dim=1, keepdim=True).clamp(min=1)
        total = None if lengths is None else lengths.total + len(tokens)
        layout = Packed.of(F.pad(mask, (1, 0), value=True), causal=False, total=total)
        x = layout.pack(norm(torch.cat([mean, tokens], dim=1)))
        if classes_only:
            return Features(classes=self.attention.read(x, layout))
        attended = self.attention(x, layout)
        return Features(layout.read(attended), layout.unpack(attended)[:, 1:], mask)
