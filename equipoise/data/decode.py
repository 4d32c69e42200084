"""Any picture file, or a Pillow image, becomes plain 8-bit RGB: the one place that knows about image modes.

Turned upright by its EXIF note, laid over white where it is transparent, first frame of several. Grey, palette, CMYK
and 16-bit pictures are converted. Whatever cannot be read raises UserError, with its name.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from equipoise.types import UserError

Picture = str | Path | Image.Image
MOST_PIXELS = 1 << 26  # of a picture that is decoded, which takes some 7 bytes for each; Pillow's own limit is higher
STRIP = 1 << 20  # pixels that are converted at once
ORIENTATION = 0x0112  # the EXIF note that says how the camera was held


def read_image(picture: Picture) -> Tensor:
    """A path or Pillow image -> uint8 [3, H, W], RGB."""
    return torch.from_numpy(read_pixels(picture)).permute(2, 0, 1).contiguous()


def read_rgb(picture: Picture) -> Image.Image:
    """A path or Pillow image -> an upright Pillow image of mode RGB without transparency."""
    return Image.fromarray(read_pixels(picture))


def read_pixels(picture: Picture, name: str = "") -> np.ndarray:
    """A path or Pillow image -> uint8 [H, W, 3], RGB, upright; `name` is for errors."""
    name = name or ("the given image" if isinstance(picture, Image.Image) else str(picture))
    try:
        if isinstance(picture, Image.Image):
            return _to_rgb(picture, name)
        with Image.open(picture) as image:
            return _to_rgb(image, name)
    except (UserError, MemoryError):
        raise
    except FileNotFoundError:
        raise UserError(f"{name}: there is no such image file; check the path.") from None
    except Image.DecompressionBombError:  # Pillow's own stop, at twice the limit
        raise UserError(_too_large(name)) from None
    except Exception as error:  # damaged files make decoders raise anything: OSError, SyntaxError, TypeError, ...
        reason = reason_of(error)
        raise UserError(f"{name}: this cannot be read as an image ({reason}); replace or remove it") from None


def reason_of(error: Exception) -> str:
    """What a decoder says, on one line, without addresses of objects."""
    if isinstance(error, UnidentifiedImageError):
        return "its bytes are of no known image format"
    return re.sub(r"<[^<>]* object at 0x[0-9a-fA-F]+>", "the file", " ".join(str(error).split()))


def to_tensor(image: Image.Image) -> Tensor:
    """A Pillow image of mode RGB -> uint8 [3, H, W]."""
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous()


def check_pixels(height: int, width: int, name: str) -> None:
    """Raises UserError for a picture whose header promises more pixels than a sane one has."""
    if width * height > _most_pixels():
        raise UserError(_too_large(name))


def _to_rgb(image: Image.Image, name: str) -> np.ndarray:
    """uint8 [H, W, 3], a strip at a time: beside the picture and its pixels no further copy of the whole is made."""
    check_pixels(image.height, image.width, name)
    image = ImageOps.exif_transpose(image)
    pixels = np.empty((image.height, image.width, 3), dtype=np.uint8)
    rows = max(1, STRIP // image.width)
    for top in range(0, image.height, rows):
        bottom = min(top + rows, image.height)
        pixels[top:bottom] = np.asarray(_strip_to_rgb(image.crop((0, top, image.width, bottom))))
    return pixels


def _strip_to_rgb(image: Image.Image) -> Image.Image:
    if image.mode == "I" or image.mode.startswith("I;16"):  # 16-bit grey, which Pillow would clip to white
        return Image.fromarray((np.asarray(image) >> 8).clip(0, 255).astype(np.uint8)).convert("RGB")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")
    return image.convert("RGB")


def _most_pixels() -> float:
    return min(MOST_PIXELS, Image.MAX_IMAGE_PIXELS or MOST_PIXELS)


def _too_large(name: str) -> str:
    return (
        f"{name}: the image has more than {_most_pixels():,} pixels, which may be an attack on memory; shrink it first"
    )
