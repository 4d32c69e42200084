"""Training pictures that look otherwise and show the same: mirrored, in other colours, grey, blurred.

The augmentation of MoCo v2 (Chen et al. 2020, "Improved Baselines with Momentum Contrastive Learning"), which the
released code of DeCLIP and FDT gives every picture beside its random crop:

    jitter  with a chance, brightness, contrast, saturation and hue by random factors, in a random order
    grey    with a chance, luminance alone
    blur    with a chance, Gaussian, of a width from 0.1 to 2 pixels
    flip    with a chance, left for right

Brightness times b, contrast 1 + c around the mean luminance, saturation 1 + s around each pixel's luminance, all
clamped to [0, 1]; hue turned by h of the whole circle in HSV. Whether, and by how much, is drawn for each picture; the
order of the four is drawn for the whole batch. Nothing of it by default: "a red star left of a blue fish" is not true
of a picture that was mirrored or recoloured.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor
from torch.nn import functional

from equipoise.data.moved import constants, moved
from equipoise.types import UserError

LUMINANCE = (0.2989, 0.587, 0.114)  # of red, green and blue, as torchvision has it
WIDTHS = (0.1, 2.0)  # of a blur, in pixels
REACH = 6  # pixels to each side that a blur looks at: three times the largest width
CHANCES = 9  # numbers drawn for each picture


@dataclass(frozen=True)
class Augment:
    flip: float = 0.0  # chances from here
    jitter: float = 0.0  # of colours
    grey: float = 0.0  # of losing all colour
    blur: float = 0.0  # of a Gaussian blur
    brightness: float = 0.4  # of jitter: factors from 1 - this to 1 + this
    contrast: float = 0.4  # of jitter, likewise
    saturation: float = 0.4  # of jitter, likewise
    hue: float = 0.1  # of jitter: turns of the colour circle, either way

    def __post_init__(self) -> None:
        for name, most in (*dict.fromkeys(("flip", "jitter", "grey", "blur"), 1.0).items(), ("hue", 0.5)):
            if not 0 <= getattr(self, name) <= most:
                raise UserError(f"{name} must be from 0 to {most}, not {getattr(self, name)}")
        for name in ("brightness", "contrast", "saturation"):
            if not 0 <= getattr(self, name) < math.inf:
                raise UserError(f"{name} must be at least 0, not {getattr(self, name)}")

    @property
    def cites(self) -> tuple[str, ...]:
        return ("chen2020mocov2",) if self.wanted else ()

    @property
    def wanted(self) -> bool:
        return max(self.flip, self.jitter, self.grey, self.blur) > 0

    def __call__(self, images: Tensor, draws: Draws) -> Tensor:
        """Augments images [N, 3, H, W] in [0, 1], each by its own row of draws."""
        mirrored, jittered, grey, blurred, width, *amounts = moved(draws.each, images.device).to(images.dtype).unbind(1)
        images = _where(mirrored < self.flip, images.flip(-1), images)
        changed = self._jittered(images, draws.order, amounts) if self.jitter else images
        images = _where(jittered < self.jitter, changed, images)
        images = _where(grey < self.grey, luminance(images).expand_as(images), images)
        if not self.blur:
            return images
        return _where(blurred < self.blur, gaussian(images, WIDTHS[0] + (WIDTHS[1] - WIDTHS[0]) * width), images)

    def _jittered(self, images: Tensor, order: tuple[int, ...], amounts: list[Tensor]) -> Tensor:
        for number in order:
            turn = 2 * amounts[number] - 1  # from -1 to 1
            if number == 3:
                images = hue_turned(images, self.hue * turn)
                continue
            strength = (self.brightness, self.contrast, self.saturation)[number]
            around = (_black, _mean_luminance, luminance)[number]
            images = blended(images, around(images), (1 + strength * turn).clamp(min=0))
        return images


@dataclass(frozen=True)
class Draws:
    """All random numbers behind the augmentation of a batch; one row per picture."""

    order: tuple[int, ...]  # of brightness, contrast, saturation and hue
    each: Tensor  # [N, CHANCES] in [0, 1)

    @classmethod
    def of(cls, size: int, generator: Generator) -> Draws:
        order = torch.randperm(4, generator=generator).tolist()
        return cls(tuple(order), torch.rand(size, CHANCES, generator=generator, dtype=torch.double))

    def backwards(self) -> Draws:
        """The draws of the batch in reverse order."""
        return Draws(self.order, self.each.flip(0))

    def part(self, rows: slice) -> Draws:
        return Draws(self.order, self.each[rows])


def luminance(images: Tensor) -> Tensor:
    """Luminance of images, [N, 1, H, W]."""
    return (images * constants(LUMINANCE, images.dtype, images.device).view(3, 1, 1)).sum(1, keepdim=True)


def _mean_luminance(images: Tensor) -> Tensor:
    return luminance(images).mean((1, 2, 3), keepdim=True)


def _black(images: Tensor) -> Tensor:
    return images.new_zeros(())


def blended(images: Tensor, around: Tensor, factor: Tensor) -> Tensor:
    """Each picture's difference from `around` times its factor [N]."""
    factor = factor.view(-1, 1, 1, 1)
    return (factor * images + (1 - factor) * around).clamp(0, 1)


def hue_turned(images: Tensor, turns: Tensor) -> Tensor:
    """Colours moved along the circle of hues by `turns` [N] of it; saturation and value stay.

    With the hue in sixths of the circle, a channel is value - chroma · clamp(min(k, 4 - k), 0, 1), where k is the hue
    plus 5 for red, 3 for green and 1 for blue, modulo 6.
    """
    value, least = images.amax(1, keepdim=True), images.amin(1, keepdim=True)
    chroma = value - least
    red, green, blue = images.unbind(1)
    apart = torch.where(chroma > 0, chroma, torch.ones_like(chroma))[:, 0]
    sixths = torch.where(
        value[:, 0] == red,
        (green - blue) / apart,
        torch.where(value[:, 0] == green, 2 + (blue - red) / apart, 4 + (red - green) / apart),
    )
    sixths = (sixths + 6 * turns.view(-1, 1, 1))[:, None]
    shifts = constants((5.0, 3.0, 1.0), images.dtype, images.device).view(3, 1, 1)
    k = torch.remainder(shifts + sixths, 6)
    return value - chroma * torch.minimum(k, 4 - k).clamp(0, 1)


def gaussian(images: Tensor, widths: Tensor) -> Tensor:
    """Each picture blurred by a Gaussian of its own width [N], one direction after the other; edges are mirrored."""
    return _along_rows(_along_rows(images, widths).mT, widths).mT


def _along_rows(images: Tensor, widths: Tensor) -> Tensor:
    side = images.shape[-1]
    reach = min(REACH, side - 1)  # a mirrored edge cannot be wider than the picture
    places = torch.arange(-reach, reach + 1, device=images.device, dtype=images.dtype)
    weights = torch.softmax(-0.5 * (places / widths[:, None]) ** 2, 1)
    wider = functional.pad(images, (reach, reach, 0, 0), mode="reflect")
    blurred = torch.zeros_like(images)
    for start, weight in enumerate(weights.unbind(1)):
        blurred += weight.view(-1, 1, 1, 1) * wider[..., start : start + side]
    return blurred


def _where(chosen: Tensor, one: Tensor, other: Tensor) -> Tensor:
    return torch.where(chosen.view(-1, 1, 1, 1), one, other)
