"""Swin: a transformer with attention in small windows, whose side is halved from stage to stage.

Liu et al. 2021, "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows", §3 (patches, stages, shifted
windows); Liu et al. 2022, "Swin Transformer V2", §3 (norms behind, cosine attention, `windows.py`).

    x = LN(patches)                                             [N, S, S, w]
    block    x ← x + LN(attention(x));   x ← x + LN(MLP(x))     every other one with windows shifted by M // 2
    merge    four neighbours side by side, a linear map, LN     [N, S/2, S/2, 2w], before each stage but the first
    tokens = LN(x) of the last stage,   class = their mean      [N, L, w·2^(stages - 1)]

There are no positions but the attention's bias, and no class token: the mean over places stands for the picture. A
stage with no more places than a window has one window, and nothing to shift. The authors' stochastic depth is left
out. Swin-B has windows of 7 × 7 places at 224 px, where the last stage is one window of 49 places of 32 px each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from equipoise.encoders.encoder import ImageEncoder, require_single
from equipoise.encoders.recomputation import Recompute, checkpointed
from equipoise.encoders.transformer import activation, check_sizes
from equipoise.encoders.windows import WindowAttention, neighbours, window_partition, window_reverse
from equipoise.settings.bounds import bounded
from equipoise.types import Features, UserError


class Swin(ImageEncoder):
    @dataclass(frozen=True)
    class Config:
        cites: ClassVar[tuple[str, ...]] = ("liu2021swin", "liu2022swinv2")

        patch: int = bounded(4, 1, 2**14)  # side of a patch, in pixels
        width: int = bounded(128, 1, 2**16)  # of the first stage; each further one is twice as wide
        layers: tuple[int, ...] = bounded((2, 2, 18, 2), 1, 1000)  # blocks of each stage
        heads: tuple[int, ...] = (4, 8, 16, 32)  # of each stage
        window: int = bounded(7, 1, 128)  # places per side
        mlp_ratio: float = bounded(4.0, 0, 64)  # width of the MLPs, in widths of the tower
        activation: str = "gelu"  # of the MLPs: gelu, gelu_tanh, quick_gelu, relu

        def __post_init__(self) -> None:
            check_sizes(patch=self.patch, width=self.width, window=self.window, mlp_ratio=self.mlp_ratio)
            if not self.layers or len(self.layers) != len(self.heads):
                raise UserError(f"layers names {len(self.layers)} stages and heads {len(self.heads)}; give one each")
            for name in ("layers", "heads"):
                check_sizes(**{f"{name}[{stage}]": count for stage, count in enumerate(getattr(self, name))})

        def build(self, image_size: int, classes: int = 1) -> Swin:
            require_single("a Swin's mean over places", classes)
            return Swin(self, image_size)

    def __init__(self, config: Config, image_size: int):
        super().__init__()
        sides = _sides(config, image_size)
        widths = [config.width * 2**stage for stage in range(len(sides))]
        self.config, self.width, self.image_size = config, widths[-1], image_size
        self.recompute: Recompute = False
        self.patches = nn.Conv2d(3, config.width, config.patch, stride=config.patch)
        self.ln_pre = nn.LayerNorm(config.width)
        self.parts = nn.ModuleList()  # blocks, and a Merge before each stage but the first
        for stage, (side, width) in enumerate(zip(sides, widths, strict=True)):
            self.parts.extend([Merge(widths[stage - 1])] if stage else [])
            for number in range(config.layers[stage]):
                self.parts.append(SwinBlock(config, width, config.heads[stage], side, shifted=number % 2 == 1))
        self.ln_post = nn.LayerNorm(self.width)
        self.apply(_initialise)

    def blocks(self) -> nn.ModuleList:
        return self.parts

    def recompute_activations(self, wanted: Recompute) -> None:
        self.recompute = wanted

    def forward(self, images: Tensor, classes_only: bool = False) -> Features:
        x = self.ln_pre(self.patches(images).permute(0, 2, 3, 1))
        for part in self.parts:
            x = checkpointed(part, x, recompute=self.recompute if self.training else False)
        tokens = self.ln_post(x).flatten(1, 2)
        classes = tokens.mean(dim=1, keepdim=True)
        if classes_only:
            return Features(classes)
        real = torch.ones(tokens.shape[:2], dtype=torch.bool, device=tokens.device)
        return Features(classes, tokens, real, at_least=tokens.shape[1])


class SwinBlock(nn.Module):
    seen: Tensor | None

    def __init__(self, config: Swin.Config, width: int, heads: int, side: int, shifted: bool):
        super().__init__()
        self.window = min(config.window, side)
        self.shift = self.window // 2 if shifted and side > self.window else 0
        hidden = int(width * config.mlp_ratio)
        self.attention = WindowAttention(width, heads, self.window)
        self.ln_1 = nn.LayerNorm(width)
        self.mlp_in = nn.Linear(width, hidden)
        self.mlp_out = nn.Linear(hidden, width)
        self.ln_2 = nn.LayerNorm(width)
        self.act = activation(config.activation)
        seen = neighbours(side, self.window, self.shift) if self.shift else None
        self.register_buffer("seen", seen, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.ln_1(self._attend(x))
        return x + self.ln_2(self.mlp_out(self.act(self.mlp_in(x))))

    def _attend(self, x: Tensor) -> Tensor:
        rolled = x.roll((-self.shift, -self.shift), (1, 2)) if self.shift else x
        attended = window_reverse(self.attention(window_partition(rolled, self.window), self.seen), self.window)
        return attended.roll((self.shift, self.shift), (1, 2)) if self.shift else attended


class Merge(nn.Module):
    """Patch merging: half the side, twice the width."""

    def __init__(self, width: int):
        super().__init__()
        self.map = nn.Linear(4 * width, 2 * width, bias=False)
        self.norm = nn.LayerNorm(2 * width)

    def forward(self, x: Tensor) -> Tensor:
        four = [x[:, down::2, right::2] for right in (0, 1) for down in (0, 1)]  # in the authors' order
        return self.norm(self.map(torch.cat(four, dim=-1)))


def _sides(config: Swin.Config, image_size: int) -> list[int]:
    """Places per side at each stage; raises UserError where patches or windows do not fit."""
    halvings = len(config.layers) - 1
    place = config.patch * 2**halvings
    if image_size % place:
        raise UserError(
            f"images of {image_size} px cannot be cut into patches of {config.patch} px and halved {halvings} times; "
            f"choose a preprocess.size that is a multiple of {place}"
        )
    sides = [image_size // config.patch // 2**stage for stage in range(halvings + 1)]
    if not _fit(config.window, sides):
        nearest = min((m for m in range(2, sides[0] + 1) if _fit(m, sides)), key=lambda m: abs(m - config.window))
        raise UserError(
            f"windows of {config.window} × {config.window} places do not fill the {' × '.join(2 * [str(sides[0])])} "
            f"patches of an image of {image_size} px at every stage; set image.window to {nearest}, or "
            f"preprocess.size to a multiple of {place * config.window}"
        )
    return sides


def _fit(window: int, sides: list[int]) -> bool:
    return all(side <= window or side % window == 0 for side in sides)


def _initialise(module: nn.Module) -> None:
    """Initialise as the authors do: small maps, and blocks that pass their input on."""
    if isinstance(module, nn.Linear):
        nn.init.trunc_normal_(module.weight, std=0.02)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    if isinstance(module, SwinBlock):
        nn.init.zeros_(module.ln_1.weight)
        nn.init.zeros_(module.ln_2.weight)
