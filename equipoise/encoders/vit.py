"""Vision transformer: patches and class tokens, pre-LN, learned positions.

Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words", Eq. 1-4, in the form of Radford et al. 2021: no bias on the
patch map, a LayerNorm before the blocks, one after them on the class token only. With several class tokens (Sun & Li
2024, §3) each starts at random and has a position of its own; nothing else tells them apart.

Patch dropout (Li et al. 2023, "Scaling Language-Image Pre-training via Masking", §3) keeps a random subset of patches
in training: the same number for every image, the class tokens always.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from equipoise.encoders.encoder import ImageEncoder, PromptTokens
from equipoise.encoders.packing import Even, Packed, Padded
from equipoise.encoders.recomputation import Recompute
from equipoise.encoders.transformer import Transformer, check_sizes
from equipoise.settings.bounds import bounded
from equipoise.types import Features, Lengths, UserError


class ViT(ImageEncoder):
    prompts: PromptTokens | None = None  # follow the patches

    lay_out: Callable[..., Packed | Padded] = staticmethod(Packed.of)  # how regions lie

    @dataclass(frozen=True)
    class Config:
        patch: int = bounded(32, 1, 2**14)  # side of a patch, in pixels
        width: int = bounded(768, 1, 2**16)  # of the tokens
        layers: int = bounded(12, 1, 1000)  # transformer blocks
        heads: int = 12  # of attention; they divide the width
        mlp_ratio: float = bounded(4.0, 0, 64)  # width of the MLPs, in widths of the tower
        activation: str = "gelu"  # of the MLPs: gelu, gelu_tanh, quick_gelu, relu
        patch_dropout: float = 0.0  # share of patches left out in training

        def __post_init__(self) -> None:
            check_sizes(
                patch=self.patch, width=self.width, layers=self.layers, heads=self.heads, mlp_ratio=self.mlp_ratio
            )
            if not 0.0 <= self.patch_dropout < 1.0:
                raise UserError(f"patch_dropout must be in [0, 1), not {self.patch_dropout}")

        @property
        def cites(self) -> tuple[str, ...]:
            return ("dosovitskiy2021vit", "li2023flip") if self.patch_dropout else ("dosovitskiy2021vit",)

        def build(self, image_size: int, classes: int = 1) -> ViT:
            return ViT(self, image_size, classes)

    def __init__(self, config: Config, image_size: int, classes: int = 1):
        super().__init__()
        if image_size % config.patch:
            raise UserError(
                f"images of {image_size} px cannot be cut into patches of {config.patch} px; "
                f"choose a preprocess.size that is a multiple of image.patch"
            )
        width = config.width
        self.config, self.width, self.image_size, self.classes = config, width, image_size, classes
        self.patches = nn.Conv2d(3, width, config.patch, stride=config.patch, bias=False)
        self.class_token = nn.Parameter(width**-0.5 * torch.randn(classes, width))
        self.positions = nn.Parameter(width**-0.5 * torch.randn(classes + (image_size // config.patch) ** 2, width))
        self.ln_pre = nn.LayerNorm(width)
        self.transformer = Transformer(width, config.layers, config.heads, config.mlp_ratio, config.activation)
        self.ln_post = nn.LayerNorm(width)

    def _embed_patches(self, images: Tensor) -> Tensor:
        """Apply the convolution of stride `patch` as one matrix product: twice as fast on a CPU, the same numbers."""
        return F.linear(cut_patches(images, self.config.patch), self.patches.weight.flatten(1))

    def blocks(self) -> nn.ModuleList:
        return self.transformer.blocks

    def recompute_activations(self, wanted: Recompute) -> None:
        self.transformer.recompute = wanted

    def forward(self, images: Tensor, classes_only: bool = False) -> Features:
        return self.encode_patches(self._embed_patches(images) + self.positions[self.classes :], classes_only)

    def encode_patches(self, x: Tensor, classes_only: bool = False) -> Features:
        """Features of embedded patches with their positions added [N, P, w], any number of them."""
        if self.training and self.config.patch_dropout:
            x = _drop_patches(x, 1 - self.config.patch_dropout)
        classes = (self.class_token + self.positions[: self.classes]).expand(x.shape[0], -1, -1)
        prompts = self.prompts() if self.prompts else ()
        patches, first = x.shape[1], [tokens.to(x.dtype).expand(x.shape[0], -1, -1) for tokens in prompts[:1]]
        x = self.ln_pre(torch.cat([classes, x, *first], dim=1))
        x = self.transformer(x, Even(self.classes), classes_only, prompts=prompts)
        if classes_only:
            return Features(classes=self.ln_post(x))
        classes, tokens = x[:, : self.classes], x[:, self.classes : self.classes + patches]
        mask = torch.ones(tokens.shape[:2], dtype=torch.bool, device=x.device)
        return Features(classes=self.ln_post(classes), tokens=tokens, mask=mask, at_least=patches)

    def normed(self, tokens: Tensor) -> Tensor:
        normed: Tensor = self.ln_post(tokens)
        return normed

    def check_rear(self, blocks: int) -> None:
        if not 1 <= blocks <= self.config.layers:
            raise UserError(f"blocks is {blocks}, but the image tower has {self.config.layers}; take 1 at least")

    def rear_norm(self) -> nn.Module:
        return nn.Identity()  # ln_pre is for patches and regions alike

    def rear(
        self,
        tokens: Tensor,
        mask: Tensor,
        blocks: int,
        norm: nn.Module,
        classes_only: bool = False,
        lengths: Lengths | None = None,
    ) -> Features:
        """Features of tokens [N, L, w] that are no patches: behind class tokens, without positions, by last blocks."""
        x = self.ln_pre(norm(torch.cat([self.class_token.expand(len(tokens), -1, -1), tokens], dim=1)))
        total = None if lengths is None else lengths.total + len(tokens) * self.classes
        real = F.pad(mask, (self.classes, 0), value=True)
        layout = self.lay_out(real, False, self.classes, total)
        x = self.transformer(layout.pack(x), layout, classes_only, last=blocks)
        if classes_only:
            return Features(classes=self.ln_post(x))
        return Features(classes=self.ln_post(layout.read(x)), tokens=layout.unpack(x)[:, self.classes :], mask=mask)


def cut_patches(images: Tensor, patch: int) -> Tensor:
    """Images [N, 3, H, W] to patches [N, P, 3·patch²], row by row, each laid out as a convolution's weight is."""
    n, channels, height, width = images.shape
    grid = images.view(n, channels, height // patch, patch, width // patch, patch)
    return grid.permute(0, 2, 4, 1, 3, 5).reshape(n, -1, channels * patch * patch)


def _drop_patches(patches: Tensor, share: float) -> Tensor:
    """A random subset of each image's patches [N, P, w], at least one."""
    n, count, width = patches.shape
    kept = torch.rand(n, count, device=patches.device).topk(max(1, int(count * share))).indices
    return patches.gather(1, kept[..., None].expand(-1, -1, width))
