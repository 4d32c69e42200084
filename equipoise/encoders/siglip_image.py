"""SigLIP's image tower: a ViT without a class token, pooled by one query that is learned.

Zhai et al. 2023, "Sigmoid Loss for Language Image Pre-Training"; the pool is that of Zhai et al. 2022, "Scaling Vision
Transformers", §3.3 (multi-head attention pooling, "MAP").

    x = LN(blocks(patches + positions))                 [N, P, w], the patch map with a bias, no norm before the blocks
    y = attention(query probe, keys and values x)       [N, 1, w]
    class = y + MLP(LN(y))                              there is no linear map behind it: the embedding is w wide

N pictures, P patches, w features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from equipoise.encoders.encoder import ImageEncoder, require_single
from equipoise.encoders.packing import Even
from equipoise.encoders.recomputation import Recompute
from equipoise.encoders.transformer import Attention, Transformer, activation, check_sizes
from equipoise.encoders.vit import cut_patches
from equipoise.settings.bounds import bounded
from equipoise.types import Features, UserError

EPSILON = 1e-6  # of LayerNorms, in both towers


class SiglipImage(ImageEncoder):
    @dataclass(frozen=True)
    class Config:
        cites: ClassVar[tuple[str, ...]] = ("zhai2023siglip", "dosovitskiy2021vit")

        patch: int = bounded(16, 1, 2**14)  # side of a patch, in pixels
        width: int = bounded(768, 1, 2**16)  # of the tokens
        layers: int = bounded(12, 1, 1000)  # transformer blocks
        heads: int = 12  # of attention; they divide the width
        mlp_ratio: float = bounded(4.0, 0, 64)  # width of the MLPs, in widths of the tower
        activation: str = "gelu_tanh"  # of the MLPs: gelu, gelu_tanh, quick_gelu, relu

        def __post_init__(self) -> None:
            check_sizes(
                patch=self.patch, width=self.width, layers=self.layers, heads=self.heads, mlp_ratio=self.mlp_ratio
            )

        def build(self, image_size: int, classes: int = 1) -> SiglipImage:
            require_single("SigLIP's pool", classes)
            return SiglipImage(self, image_size)

    def __init__(self, config: Config, image_size: int):
        super().__init__()
        if image_size % config.patch:
            raise UserError(
                f"images of {image_size} px cannot be cut into patches of {config.patch} px; "
                f"choose a preprocess.size that is a multiple of image.patch"
            )
        width, sizes = config.width, (config.heads, config.mlp_ratio, config.activation)
        self.config, self.width, self.image_size = config, width, image_size
        self.patches = nn.Conv2d(3, width, config.patch, stride=config.patch)
        self.positions = nn.Parameter(width**-0.5 * torch.randn((image_size // config.patch) ** 2, width))
        self.transformer = Transformer(width, config.layers, *sizes, eps=EPSILON)
        self.ln_post = nn.LayerNorm(width, EPSILON)
        self.pool = ProbePool(width, *sizes)

    def blocks(self) -> nn.ModuleList:
        return self.transformer.blocks

    def recompute_activations(self, wanted: Recompute) -> None:
        self.transformer.recompute = wanted

    def forward(self, images: Tensor, classes_only: bool = False) -> Features:
        patches = cut_patches(images, self.config.patch)
        x = F.linear(patches, self.patches.weight.flatten(1), self.patches.bias) + self.positions
        tokens = self.ln_post(self.transformer(x, Even()))
        classes = self.pool(tokens)
        if classes_only:
            return Features(classes=classes)
        real = torch.ones(tokens.shape[:2], dtype=torch.bool, device=tokens.device)
        return Features(classes, tokens, real, at_least=tokens.shape[1])


class ProbePool(nn.Module):
    """Attention of one learned query to all tokens, then an MLP."""

    def __init__(self, width: int, heads: int, mlp_ratio: float, act: str):
        super().__init__()
        hidden = int(width * mlp_ratio)
        self.probe = nn.Parameter(width**-0.5 * torch.randn(1, width))
        self.attention = Attention(width, heads)
        self.ln = nn.LayerNorm(width, EPSILON)
        self.mlp_in = nn.Linear(width, hidden)
        self.mlp_out = nn.Linear(hidden, width)
        self.act = activation(act)

    def forward(self, tokens: Tensor) -> Tensor:
        """[N, P, w] to [N, 1, w]."""
        y = self.attention.query(self.probe.expand(tokens.shape[0], -1, -1), tokens, Even())
        return y + self.mlp_out(self.act(self.mlp_in(self.ln(y))))
