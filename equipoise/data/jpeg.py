"""The quick way to read a JPEG: libjpeg-turbo straight into an array, at half, a quarter or an eighth of its size.

A JPEG can be decoded smaller than it is for less than the price of decoding it whole. Only powers of two are used: the
other scales that the library knows have no fast code and cost more than the whole picture.
"""

from __future__ import annotations

import threading
import warnings
from dataclasses import dataclass
from functools import cache
from types import ModuleType

import numpy as np

START = b"\xff\xd8\xff"
PLAIN = ("YCbCr", "Gray", "RGB")  # colour spaces; CMYK and the like are left to Pillow, which knows their inversions
REDUCTIONS = (8, 4, 2)
REUSED = 1 << 22  # bytes that a thread keeps for pixels: new memory costs the kernel a third of the time of decoding


@dataclass(frozen=True)
class JpegHeader:
    height: int
    width: int


def read_header(data: bytes) -> JpegHeader | None:
    """The size a JPEG says it has; None for anything that is not a JPEG of the plain kind."""
    library = _simplejpeg()
    if library is None or not data.startswith(START):
        return None
    try:
        height, width, space, _ = library.decode_jpeg_header(data)
    except ValueError:
        return None  # Pillow says what is wrong with it
    return JpegHeader(height, width) if space in PLAIN and min(height, width) > 0 else None


def decode(data: bytes, header: JpegHeader, reduction: int = 1, reuse_buffer: bool = False) -> np.ndarray | None:
    """uint8 [H, W, 3], each side divided by `reduction` and rounded up; None where the data is damaged or odd.

    With `reuse_buffer` the pixels lie in a buffer of this thread, and last until it decodes the next picture so.
    """
    library = _simplejpeg()
    assert library is not None, "a header was read with it"
    height, width = -(-header.height // reduction), -(-header.width // reduction)
    least = {"min_height": height, "min_width": width} if reduction > 1 else {}
    memory = _reused.memory[: 3 * height * width] if reuse_buffer and 3 * height * width <= REUSED else None
    try:
        return library.decode_jpeg(data, "RGB", buffer=memory, **least)
    except ValueError:
        return None


def turned(pixels: np.ndarray, orientation: int) -> np.ndarray:
    """The picture upright, given its EXIF orientation from 1 (upright already) to 8."""
    if orientation >= 5:
        pixels = pixels.transpose(1, 0, 2)
    down, across = orientation in (3, 4, 7, 8), orientation in (2, 3, 6, 7)
    return np.ascontiguousarray(pixels[:: -1 if down else 1, :: -1 if across else 1])


def reduction_for(height: float, width: float, least: float) -> int:
    """How far a part of height x width may shrink so that neither side falls below `least`."""
    return next((factor for factor in REDUCTIONS if min(height, width) >= factor * least), 1)


class _Reused(threading.local):
    def __init__(self) -> None:
        self.memory = np.empty(REUSED, dtype=np.uint8)


_reused = _Reused()


@cache
def _simplejpeg() -> ModuleType | None:
    try:
        import simplejpeg
    except ImportError:
        warnings.warn("simplejpeg is not installed, so JPEGs are read slowly; pip install simplejpeg", stacklevel=2)
        return None
    return simplejpeg
