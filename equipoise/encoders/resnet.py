"""CLIP's ResNet: a three-layer stem, anti-aliased strides, and an attention pool.

He et al. 2016, "Deep Residual Learning for Image Recognition" (bottlenecks); Radford et al. 2021, §2.4 (the changes):

    stem        three 3 × 3 convolutions, the first of stride 2, then a 2 × 2 mean: 1/4 of the side
    bottleneck  1 × 1, 3 × 3, 1 × 1 convolutions and a shortcut; where the side is halved, a 2 × 2 mean comes before
                the last convolution and before the shortcut's, instead of a stride (Zhang 2019)
    pool        attention_pool.py instead of mean pooling

Four stages of widths 4w, 8w, 16w, 32w halve the side three times: a place of the last is 32 px wide. ResNet-50 has
w = 64 and `layers` (3, 4, 6, 3). Every convolution is followed by a batch norm (`batch_norm.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from torch import Tensor, nn
from torch.nn import functional as F

from equipoise.encoders.attention_pool import AttentionPool
from equipoise.encoders.batch_norm import BatchNorm, leaving_statistics
from equipoise.encoders.encoder import ImageEncoder, require_single
from equipoise.encoders.recomputation import Recompute, checkpointed
from equipoise.encoders.transformer import check_sizes
from equipoise.settings.bounds import bounded
from equipoise.types import Features, Lengths, UserError

PLACE = 32  # pixels per side of one place of the last stage
EXPANSION = 4  # a bottleneck's output over its inner width


class ResNet(ImageEncoder):
    @dataclass(frozen=True)
    class Config:
        cites: ClassVar[tuple[str, ...]] = ("he2016resnet", "ioffe2015batchnorm", "zhang2019antialiased")

        layers: tuple[int, int, int, int] = bounded((3, 4, 6, 3), 1, 1000)  # bottlenecks of each stage
        width: int = bounded(64, 1, 2**16)  # of the stem; features are 32 times as wide
        heads: int = 32  # of the attention pool

        def __post_init__(self) -> None:
            check_sizes(**{f"layers[{stage}]": count for stage, count in enumerate(self.layers)})
            check_sizes(width=self.width, heads=self.heads)
            if self.width % 2:
                raise UserError(f"width must be even, for the stem starts with half of it, not {self.width}")

        def build(self, image_size: int, classes: int = 1) -> ResNet:
            require_single("a ResNet's attention pool", classes)
            return ResNet(self, image_size)

    def __init__(self, config: Config, image_size: int):
        super().__init__()
        if image_size % PLACE:
            raise UserError(
                f"images of {image_size} px cannot be halved five times; choose a preprocess.size that is a multiple "
                f"of {PLACE}"
            )
        self.config, self.width, self.image_size = config, PLACE * config.width, image_size
        self.recompute: Recompute = False
        self.stem = Stem(config.width)
        self.stages = nn.ModuleDict()
        before = config.width
        for number, count in enumerate(config.layers):
            inner = config.width * 2**number
            strides = [1 if number == 0 else 2, *[1] * (count - 1)]
            widths = [before, *[EXPANSION * inner] * (count - 1)]
            self.stages[f"layer{number + 1}"] = nn.ModuleList(map(partial(Bottleneck, inner), widths, strides))
            before = EXPANSION * inner
        self.pool = AttentionPool((image_size // PLACE) ** 2, self.width, config.heads)

    def blocks(self) -> Iterator[nn.Module]:
        for stage in self.stages.values():
            assert isinstance(stage, Iterable)
            yield from stage

    def recompute_activations(self, wanted: Recompute) -> None:
        self.recompute = wanted

    def forward(self, images: Tensor, classes_only: bool = False) -> Features:
        x = self.stem(images)
        for block in self.blocks():
            how = self.recompute if self.training else False
            x = checkpointed(block, x, recompute=how, again=partial(leaving_statistics, block))
        return self.pool(x.flatten(2).transpose(1, 2), classes_only)

    def check_rear(self, blocks: int) -> None:
        if blocks:
            raise UserError(
                f"blocks is {blocks}, but regions pass a ResNet's attention pool alone, for they have no neighbours to "
                "be convolved with; set regions.blocks to 0"
            )

    def rear_norm(self) -> nn.Module:
        return nn.LayerNorm(self.width)

    def rear(
        self,
        tokens: Tensor,
        mask: Tensor,
        blocks: int,
        norm: nn.Module,
        classes_only: bool = False,
        lengths: Lengths | None = None,
    ) -> Features:
        """Features of tokens [N, L, w] without positions: normalised with their mean, through the attention pool."""
        return self.pool.without_positions(tokens, mask, norm, classes_only, lengths)


class Stem(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        half = width // 2
        self.conv1, self.bn1 = nn.Conv2d(3, half, 3, stride=2, padding=1, bias=False), BatchNorm(half)
        self.conv2, self.bn2 = nn.Conv2d(half, half, 3, padding=1, bias=False), BatchNorm(half)
        self.conv3, self.bn3 = nn.Conv2d(half, width, 3, padding=1, bias=False), BatchNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        return F.avg_pool2d(F.relu(self.bn3(self.conv3(x))), 2)


class Bottleneck(nn.Module):
    def __init__(self, inner: int, width: int, stride: int):
        super().__init__()
        wide = EXPANSION * inner
        self.stride = stride
        self.conv1, self.bn1 = nn.Conv2d(width, inner, 1, bias=False), BatchNorm(inner)
        self.conv2, self.bn2 = nn.Conv2d(inner, inner, 3, padding=1, bias=False), BatchNorm(inner)
        self.conv3, self.bn3 = nn.Conv2d(inner, wide, 1, bias=False), BatchNorm(wide)
        nn.init.zeros_(self.bn3.weight)  # at the start a block passes its input on
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or width != wide:
            conv = nn.Conv2d(width, wide, 1, bias=False)
            self.shortcut = nn.Sequential(nn.AvgPool2d(stride), conv, BatchNorm(wide))

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        y = F.avg_pool2d(y, self.stride) if self.stride > 1 else y
        return F.relu(self.bn3(self.conv3(y)) + self.shortcut(x))
