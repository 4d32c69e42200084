"""From 8-bit images to what an encoder sees: CLIP's preprocessing, which travels with the model.

Training takes a random crop and resizes it; evaluation resizes the shorter side and crops the centre. Both are bicubic
and antialiased, and both end with the mean and standard deviation of OpenAI's CLIP. Tensors stay on their device and
are handled a whole batch at a time; Pillow images and paths go through Pillow's own resize, as in open_clip.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_type_hints

import torch
from PIL import Image
from torch import Tensor

from equipoise.data.decode import Picture, read_image, read_rgb, to_tensor
from equipoise.data.moved import constants, moved
from equipoise.data.resample import resample
from equipoise.settings.bounds import bounded, require_finite, require_within
from equipoise.settings.layers import shown
from equipoise.settings.values import Mismatch, convert
from equipoise.types import UserError

__all__ = ["OPENAI_MEAN", "OPENAI_STD", "Preprocess", "Squashed", "random_crops", "read_image"]

OPENAI_MEAN = (0.48145466, 0.4578275, 0.40821073)
OPENAI_STD = (0.26862954, 0.26130258, 0.27577711)
FIXED = {"mode": "RGB", "interpolation": "bicubic"}  # what open_clip may vary and we do not
RESIZE = ("shortest", "squash")
OPEN_CLIP_FIELDS = ("size", *FIXED, "resize_mode", "fill_color", "mean", "std")  # nothing is ever filled by either
CACHED = 2**17  # numbers that are normalised at once on a processor: half a MiB
CROP_TRIES = 10  # as in torchvision; after that the largest centred crop is taken


class Squashed(int):
    """A size to which both sides of a picture are resized, whatever its ratio."""


@dataclass(frozen=True)
class Preprocess:
    """How images are cropped, resized and normalised."""

    size: int = bounded(224, 1, 2**14)  # side of the pictures that the model sees, in pixels
    mean: tuple[float, float, float] = bounded(OPENAI_MEAN, -1e3, 1e3)  # of red, green and blue, subtracted; OpenAI's
    std: tuple[float, float, float] = bounded(OPENAI_STD, 1e-3, 1e3)  # of red, green and blue, divided by; OpenAI's
    resize: str = "shortest"  # for evaluation: shorter side, then the centre; squash: both sides, as SigLIP has it
    crop_scale: tuple[float, float] = (0.8, 1.0)  # training crop: share of the image's area
    crop_ratio: tuple[float, float] = (3 / 4, 4 / 3)  # training crop: width over height, before it is made square

    def __post_init__(self) -> None:
        if self.size < 1:
            raise UserError(f"preprocess.size is {self.size}; give the image side in pixels, at least 1.")
        if self.resize not in RESIZE:
            raise UserError(f"preprocess.resize is {self.resize!r}; choose one of {', '.join(RESIZE)}.")
        if min(self.std) <= 0:
            raise UserError(f"preprocess.std is {self.std}; every channel needs a positive standard deviation.")
        for name, (low, high), limit in (("scale", self.crop_scale, 1.0), ("ratio", self.crop_ratio, math.inf)):
            if not 0 < low <= high <= limit:
                raise UserError(f"preprocess.crop_{name} is ({low}, {high}); give 0 < low <= high <= {limit}.")

    @property
    def side(self) -> int:
        """The size, as sources of pictures are asked for it: a `Squashed` one where both sides are resized."""
        return Squashed(self.size) if self.resize == "squash" else self.size

    def for_training(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """uint8 [N, 3, H, W] -> [N, 3, size, size] on the same device: a random crop of each, by `generator`."""
        sizes = torch.tensor(_checked(images).shape[-2:]).expand(len(images), 2)
        return self.cropped(images, self.boxes(sizes, crop_draws(len(images), generator)))

    def boxes(self, sizes: Tensor, draws: Tensor) -> Tensor:
        """Training crops [N, 4] of images of the given heights and widths [N, 2]; see `crop_draws`."""
        return crop_boxes(sizes, self.crop_scale, self.crop_ratio, draws)

    def evaluation_boxes(self, sizes: Tensor) -> Tensor:
        """What evaluation cuts out [N, 4] of images of the given heights and widths [N, 2]."""
        rows = [evaluation_box(int(height), int(width), self.side) for height, width in sizes.tolist()]
        return torch.tensor(rows, dtype=torch.double)

    def cropped(self, images: Tensor, boxes: Tensor) -> Tensor:
        """uint8 [N, 3, H, W] -> [N, 3, size, size]: the boxes resized and normalised."""
        return self._normalise(resample(_checked(images).float(), moved(boxes, images.device), self.size))

    def normalised(self, images: Tensor) -> Tensor:
        """uint8 [N, 3, size, size], cut already -> what the encoder sees."""
        rows = len(_checked(images))
        if rows and images.device.type == "cpu":  # so few that they stay in the core's cache from step to step
            rows = max(1, CACHED // images[0].numel())
        seen = torch.empty(images.shape, dtype=torch.float, device=images.device)
        mean, std = self._levels(seen)
        for part, pixels in zip(seen.split(max(1, rows)), images.split(max(1, rows)), strict=True):
            part.copy_(pixels).sub_(mean).div_(std)
        return seen

    def redrawn(self, images: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
        """What the encoder sees of normalised images once `change` was made to their colours, in [0, 1]."""
        mean, std = self._colours(images)
        return (change((images * std + mean).clamp_(0, 1)) - mean) / std

    def for_evaluation(self, images: Tensor | Picture | Sequence[Picture]) -> Tensor:
        """uint8 [N, 3, H, W], or pictures and paths -> [N, 3, size, size]: shorter side resized, centre cropped; or
        both sides resized, where `resize` is squash."""
        if isinstance(images, Tensor):
            return self._normalise(self._centre(_checked(images)))
        pictures = [images] if isinstance(images, Picture) else images
        batch = torch.empty(len(pictures), 3, self.size, self.size, dtype=torch.uint8)
        for row, picture in zip(batch, pictures, strict=True):
            row.copy_(to_tensor(self._centre_pillow(read_rgb(picture))))
        return self.normalised(batch)

    def to_json(self) -> dict[str, Any]:
        """The `preprocess_cfg` of an open_clip_config.json. The training crop is the run's, not the model's."""
        return {"size": self.size, **FIXED, "resize_mode": self.resize, "mean": list(self.mean), "std": list(self.std)}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Preprocess:
        """Reads a `preprocess_cfg`; missing fields have open_clip's defaults, unsupported ones raise UserError."""
        for name, value in fields.items():
            if name not in OPEN_CLIP_FIELDS:
                raise UserError(f"preprocess_cfg: {name!r} is unknown; the fields are {', '.join(OPEN_CLIP_FIELDS)}.")
            if name in FIXED and value != FIXED[name]:
                raise UserError(f"preprocess_cfg: {name} is {value!r}, but only {FIXED[name]!r} is supported.")
        resize = fields.get("resize_mode", cls.resize)
        if resize not in RESIZE:
            raise UserError(
                f"preprocess_cfg: resize_mode is {resize!r}, but only {' or '.join(map(repr, RESIZE))} is supported."
            )
        size = fields.get("size", cls.size)
        if isinstance(size, list | tuple):
            if len(size) != 2 or size[0] != size[1]:
                raise UserError(f"preprocess_cfg: size is {size}, but only square images are supported.")
            size = size[0]
        read = {name: fields.get(name, default) for name, default in (("mean", OPENAI_MEAN), ("std", OPENAI_STD))}
        numbers = {name: _number(cls, name, value) for name, value in {"size": size, **read}.items()}
        return cls(**numbers, resize=resize)

    def _centre(self, images: Tensor) -> Tensor:
        height, width = images.shape[-2:]
        if height == width == self.size:
            return images.float()
        box = torch.tensor(evaluation_box(height, width, self.side), device=images.device)
        return resample(images.float(), box.expand(len(images), 4), self.size)

    def _centre_pillow(self, image: Image.Image) -> Image.Image:
        # one resize of the box alone: a long thin image never becomes a huge one on the way
        box = evaluation_box(image.height, image.width, self.side)
        return image.resize((self.size, self.size), Image.Resampling.BICUBIC, box=box)

    def _normalise(self, images: Tensor) -> Tensor:
        """[0, 255] -> normalised, in place if it can; what bicubic overshot is clamped, as 8-bit images do."""
        mean, std = self._levels(images)
        return images.contiguous().clamp_(0, 255).sub_(mean).div_(std)

    def _levels(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of the channels, of levels from 0 to 255."""
        mean, std = self._colours(like)
        return mean * 255, std * 255

    def _colours(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of the channels."""
        mean, std = (constants(tuple(values), like.dtype, like.device) for values in (self.mean, self.std))
        return mean.view(3, 1, 1), std.view(3, 1, 1)


def _number(cls: type, name: str, value: Any) -> Any:
    """The numbers of a field, which the settings of a run would take; raises UserError for any others."""
    hint = get_type_hints(cls)[name]
    try:
        number = convert(list(value) if isinstance(value, tuple) else value, hint)
        require_finite(number)
        require_within(number, hint, cls.__dataclass_fields__[name].metadata)  # type: ignore[attr-defined]
    except Mismatch as error:
        raise UserError(f"preprocess_cfg: {name} must be {error}, found {shown(value)}") from None
    return number


def _checked(images: Tensor) -> Tensor:
    if images.dtype != torch.uint8 or images.dim() != 4 or images.shape[1] != 3:
        what = f"{images.dtype} of shape {list(images.shape)}"
        raise UserError(f"Images are {what}, but must be uint8 of shape [N, 3, H, W] with values from 0 to 255.")
    return images


def evaluation_box(height: int, width: int, size: int) -> tuple[float, float, float, float]:
    """The part of the image that becomes [size, size]: all of it where the size is `Squashed`, else the centre."""
    return (0.0, 0.0, float(width), float(height)) if isinstance(size, Squashed) else centre_box(height, width, size)


def centre_box(height: int, width: int, size: int) -> tuple[float, float, float, float]:
    """The part of the image that is left once the shorter side is resized to `size` and the centre cropped."""
    shorter = min(height, width)
    tall, wide = int(size * height / shorter), int(size * width / shorter)
    top, left = round((tall - size) / 2), round((wide - size) / 2)
    x, y = width / wide, height / tall  # input pixels for each output pixel
    return left * x, top * y, min((left + size) * x, width), min((top + size) * y, height)


def random_crops(
    n: int,
    height: int,
    width: int,
    scale: tuple[float, float],
    ratio: tuple[float, float],
    generator: torch.Generator,
) -> Tensor:
    """[n, 4] whole-pixel boxes (x0, y0, x1, y1), distributed as torchvision's RandomResizedCrop draws them."""
    return crop_boxes(torch.tensor([height, width]).expand(n, 2), scale, ratio, crop_draws(n, generator))


def crop_draws(n: int, generator: torch.Generator) -> Tensor:
    """[n, 4, tries] uniform numbers, all that decides n crops; one row per crop."""
    draws = torch.rand(4, n, CROP_TRIES, generator=generator, device=generator.device, dtype=torch.double)
    return draws.transpose(0, 1)


def crop_boxes(sizes: Tensor, scale: tuple[float, float], ratio: tuple[float, float], draws: Tensor) -> Tensor:
    """[n, 4] boxes from heights and widths [n, 2] and `crop_draws`; a row depends on its own size and draws alone."""
    height, width = sizes.to(draws).split(1, dim=1)
    by_area, by_aspect, across, down = draws.unbind(1)
    area = height * width * (scale[0] + (scale[1] - scale[0]) * by_area)
    aspect = torch.exp(math.log(ratio[0]) + math.log(ratio[1] / ratio[0]) * by_aspect)
    w, h = (area * aspect).sqrt().round(), (area / aspect).sqrt().round()
    x, y = (across * (width - w + 1)).floor(), (down * (height - h + 1)).floor()
    fits = (w > 0) & (w <= width) & (h > 0) & (h <= height)
    first = fits.long().argmax(1, keepdim=True)  # argmax gives the first of equals
    boxes = torch.stack([x, y, x + w, y + h], -1).take_along_dim(first[:, :, None], 1)[:, 0]
    return torch.where(fits.any(1, keepdim=True), boxes, _centre_crops(height, width, ratio))


def _centre_crops(height: Tensor, width: Tensor, ratio: tuple[float, float]) -> Tensor:
    """The largest centred boxes whose ratio is allowed."""
    w = torch.minimum(width, (height * ratio[1]).round()).clamp(min=1)
    h = torch.minimum(height, (width / ratio[0]).round()).clamp(min=1)
    x, y = ((width - w) / 2).floor(), ((height - h) / 2).floor()
    return torch.cat([x, y, x + w, y + h], 1)
