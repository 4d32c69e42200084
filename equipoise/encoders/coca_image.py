"""CoCa's image tower: a ViT whose tokens are pooled by learned queries, one for contrast, the others for captions.

Yu et al. 2022, "CoCa: Contrastive Captioners are Image-Text Foundation Models", §3.2 (attentional poolers), and
open_clip's code, whose released weights pool otherwise than the paper.

    pooling     tokens (for captions)                class (for contrast)
    single      LN(pool(x))_1 ...                    LN(pool(x))_0                one pooler: open_clip's weights
    cascade     pool(LN(x))                          pool_1(pool(LN(x)))          the paper's
    parallel    pool(LN(x))                          pool_1(LN(x))                the paper's ablation

x [N, 1 + P, w] class token and patches of the ViT; pool has `queries` queries of `pooled` dimensions, pool_1 one. In
open_clip `cascade` and `parallel` run only where both widths are equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from equipoise.encoders.cross_attention import AttentionalPooler
from equipoise.encoders.encoder import ImageEncoder, require_single
from equipoise.encoders.packing import Even
from equipoise.encoders.recomputation import Recompute
from equipoise.encoders.transformer import check_sizes
from equipoise.encoders.vit import ViT
from equipoise.settings.bounds import bounded
from equipoise.types import Features, UserError

POOLINGS = ("single", "cascade", "parallel")


class CoCaImage(ImageEncoder):
    @dataclass(frozen=True)
    class Config:
        cites: ClassVar[tuple[str, ...]] = ("yu2022coca", "dosovitskiy2021vit")

        patch: int = bounded(32, 1, 2**14)  # side of a patch, in pixels
        width: int = bounded(768, 1, 2**16)  # of the tokens
        layers: int = bounded(12, 1, 1000)  # transformer blocks
        heads: int = 12  # of attention; they divide the width
        mlp_ratio: float = bounded(4.0, 0, 64)  # width of the MLPs, in widths of the tower
        activation: str = "gelu"  # of the MLPs: gelu, gelu_tanh, quick_gelu, relu
        patch_dropout: float = 0.0  # share of patches left out in training
        pooling: str = "single"  # single, cascade, parallel
        queries: int = bounded(256, 1, 2**14)  # in `single` the first is the class
        pooled: int = bounded(512, 1, 2**16)  # width of what they find
        pool_heads: int = 8  # of attention in the poolers

        def __post_init__(self) -> None:
            self.vit()
            check_sizes(queries=self.queries, pooled=self.pooled, pool_heads=self.pool_heads)
            if self.pooling not in POOLINGS:
                raise UserError(f"pooling must be one of {', '.join(POOLINGS)}, not {self.pooling!r}")
            if self.pooling == "single" and self.queries < 2:
                raise UserError(
                    f"queries is {self.queries}, of which one is for contrast; captions need at least one more"
                )

        def vit(self) -> ViT.Config:
            sizes = (self.patch, self.width, self.layers, self.heads)
            return ViT.Config(*sizes, self.mlp_ratio, self.activation, self.patch_dropout)

        def build(self, image_size: int, classes: int = 1) -> CoCaImage:
            require_single("CoCa's image tower", classes)
            return CoCaImage(self, image_size)

    def __init__(self, config: Config, image_size: int):
        super().__init__()
        self.config, self.width, self.image_size = config, config.pooled, image_size
        self.vit = ViT(config.vit(), image_size)
        self.vit.ln_post = nn.Identity()  # type: ignore[assignment]  # poolers have norms of their own
        self.pool = AttentionalPooler(config.pooled, config.width, config.queries, config.pool_heads)
        if config.pooling == "single":
            self.ln_post = nn.LayerNorm(config.pooled)
            return
        self.ln_post = nn.LayerNorm(config.width)
        asked = config.pooled if config.pooling == "cascade" else config.width
        self.class_pool = AttentionalPooler(config.pooled, asked, 1, config.pool_heads)

    def blocks(self) -> nn.ModuleList:
        return self.vit.blocks()

    def recompute_activations(self, wanted: Recompute) -> None:
        self.vit.recompute_activations(wanted)

    def forward(self, images: Tensor, classes_only: bool = False) -> Features:
        features = self.vit(images)
        assert features.tokens is not None
        classes, tokens = self._pooled(torch.cat([features.classes, features.tokens], dim=1), classes_only)
        if classes_only:
            return Features(classes=classes)
        real = torch.ones(tokens.shape[:2], dtype=torch.bool, device=tokens.device)
        return Features(classes, tokens, real, at_least=tokens.shape[1])

    def _pooled(self, x: Tensor, classes_only: bool) -> tuple[Tensor, Tensor]:
        """The class [N, 1, w] and the other features; `classes_only` leaves those out that it does not rest on."""
        if self.config.pooling == "single":
            found = self.ln_post(self.pool(x, Even()))
            return found[:, :1], found[:, 1:]
        x = self.ln_post(x)
        if self.config.pooling == "parallel":
            classes = self.class_pool(x, Even())
            return classes, classes[:, :0] if classes_only else self.pool(x, Even())
        tokens = self.pool(x, Even())
        return self.class_pool(tokens, Even()), tokens
