"""Small pictures for pages: whole where a source has files, as the model sees them where it draws them itself."""

from __future__ import annotations

import base64
import io

import numpy as np
from PIL import Image

from equipoise.data.source import Source, can_crop, has_pictures
from equipoise.types import UserError

SIDE, QUALITY = 176, 82


def thumbnail(source: Source, index: int) -> str:
    """A picture as a data URI, no side longer than SIDE; empty where there is none, or it cannot be read."""
    jpeg = thumbnail_jpeg(source, index)
    return "data:image/jpeg;base64," + base64.b64encode(jpeg).decode("ascii") if jpeg else ""


def thumbnail_jpeg(source: Source, index: int) -> bytes:
    """The same as the bytes of a JPEG."""
    if not has_pictures(source):
        return b""
    try:
        picture = _whole(getattr(source, "pictures", source), index)
    except UserError:  # a broken record is met, and counted, in training
        return b""
    buffer = io.BytesIO()
    picture.save(buffer, format="JPEG", quality=QUALITY)
    return buffer.getvalue()


def _whole(source: Source, index: int) -> Image.Image:
    if not can_crop(source):
        return Image.fromarray(np.ascontiguousarray(source.images([index], SIDE)[0].permute(1, 2, 0).cpu().numpy()))
    image = source.open(index).image
    scale = min(1.0, SIDE / max(image.width, image.height))
    sides = max(1, round(image.width * scale)), max(1, round(image.height * scale))
    return image.resized((0, 0, image.width, image.height), sides)
