"""A picture still in the bytes of its file: its size from the header, then just the part that is needed.

Sizes and boxes are those of the upright picture (EXIF followed). JPEGs go the quick way (`jpeg.py`), all else and
whatever the quick way does not take through Pillow (`decode.py`). Nothing is decoded before its size is known to be
harmless.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from equipoise.data import jpeg
from equipoise.data.bad_records import BadRecord
from equipoise.data.decode import ORIENTATION, check_pixels, read_pixels, reason_of
from equipoise.data.preprocess import evaluation_box
from equipoise.data.resize import resize_pixels
from equipoise.types import UserError

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")  # not what Pillow would run another program for
EXIF_WITHIN = 1 << 17  # bytes; the notes of a JPEG come first, each at most 64 KiB
KEPT = 2  # evaluation: a reduced picture keeps at least this many pixels for each that is wanted

Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class EncodedImage:
    """The bytes of an image file whose header was read; pixels are decoded on demand."""

    data: bytes
    place: str  # named when something is wrong
    height: int
    width: int
    orientation: int = 1  # still to be followed
    header: jpeg.JpegHeader | None = None  # of a JPEG that can go the quick way

    def pixels(self) -> np.ndarray:
        """The whole image, uint8 [H, W, 3], upright."""
        return self.reduced(1)[0]

    def reduced(self, reduction: int, reuse_buffer: bool = False) -> tuple[np.ndarray, int]:
        """The pixels, each side divided by `reduction` and rounded up, and that number; 1 where it cannot be done.
        With `reuse_buffer` they last until this thread reads the next picture so."""
        found = jpeg.decode(self.data, self.header, reduction, reuse_buffer) if self.header else None
        if found is not None:
            return (found if self.orientation == 1 else jpeg.turned(found, self.orientation)), reduction
        try:
            with Image.open(io.BytesIO(self.data), formats=FORMATS) as image:
                return read_pixels(image, self.place), 1
        except MemoryError:
            raise  # not the picture's fault
        except Exception as error:
            raise _bad(self.place, error) from None

    def crops(self, boxes: Sequence[Box], size: int) -> list[Tensor]:
        """uint8 [3, size, size] per box: its pixels resized, bicubic and antialiased, as torchvision's crop is.

        The image is decoded once for all boxes that may be read at the same reduction. A JPEG decoded smaller has
        other pixels than one decoded whole and shrunk, so boxes that may be read at unlike reductions cannot share a
        decode without changing their crops.
        """
        wanted = [jpeg.reduction_for(y1 - y0, x1 - x0, size) if self.header else 1 for x0, y0, x1, y1 in boxes]
        crops: dict[int, Tensor] = {}
        for each in set(wanted):
            pixels, reduction = self.reduced(each, reuse_buffer=True)
            for number, box in enumerate(boxes):
                if wanted[number] == each:
                    crops[number] = _resized_part(pixels, reduction, box, size)
        return [crops[number] for number in range(len(boxes))]

    def square(self, size: int) -> Tensor:
        """uint8 [3, size, size]: the evaluation crop, exactly as `Preprocess.for_evaluation` makes it of a file."""
        return torch.from_numpy(self.square_pixels(size)).permute(2, 0, 1)

    def square_pixels(self, size: int) -> np.ndarray:
        """The same, uint8 [size, size, 3], and without torch."""
        return np.array(self.resized(evaluation_box(self.height, self.width, size), (size, size)))

    def shrunk(self, width: int, height: int) -> Image.Image:
        """The whole picture at width x height, within two levels of `resized`, by what is fastest here."""
        pixels, reduction = self._kept((width / self.width, height / self.height))
        if pixels.shape[:2] != (self.height / reduction, self.width / reduction):
            # a part of a pixel at the end, which torch cannot leave out
            whole = (0, 0, self.width / reduction, self.height / reduction)
            return Image.fromarray(pixels).resize((width, height), Image.Resampling.BICUBIC, box=whole)
        return Image.fromarray(resize_pixels(pixels, width, height))

    def resized(self, box: Box, sides: tuple[int, int]) -> Image.Image:
        """A part of the picture at width x height, read smaller only where KEPT pixels are left for each."""
        pixels, reduction = self._kept((sides[0] / (box[2] - box[0]), sides[1] / (box[3] - box[1])))
        x0, y0, x1, y1 = (edge / reduction for edge in box)
        return Image.fromarray(pixels).resize(sides, Image.Resampling.BICUBIC, box=(x0, y0, x1, y1))

    def _kept(self, scales: tuple[float, float]) -> tuple[np.ndarray, int]:
        """The pixels, read so much smaller that KEPT are left for each once both sides shrink by `scales`."""
        return self.reduced(jpeg.reduction_for(1, 1, KEPT * max(scales)), reuse_buffer=True)

    def check(self) -> None:
        """Raises BadRecord where the picture cannot be decoded; as cheap as that can be known."""
        self.reduced(jpeg.REDUCTIONS[0])


def _resized_part(pixels: np.ndarray, reduction: int, box: Box, size: int) -> Tensor:
    x0, y0, x1, y1 = (round(edge / reduction) for edge in box)
    return torch.from_numpy(resize_pixels(pixels[y0:y1, x0:x1], size, size)).permute(2, 0, 1)


def encoded(data: bytes, place: str) -> EncodedImage:
    """Reads the header. Raises BadRecord, which names `place`, for too large an image or none at all."""
    if not data:
        raise BadRecord(place, "the image is empty, 0 bytes")
    header = jpeg.read_header(data)
    try:
        if header is None:
            return _with_pillow(data, place)
        check_pixels(header.height, header.width, place)
        orientation = _orientation(data)
    except MemoryError:
        raise
    except Exception as error:
        raise _bad(place, error) from None
    sides = (header.width, header.height) if orientation >= 5 else (header.height, header.width)
    return EncodedImage(data, place, *sides, orientation, header)


def _with_pillow(data: bytes, place: str) -> EncodedImage:
    with Image.open(io.BytesIO(data), formats=FORMATS) as image:
        check_pixels(image.height, image.width, place)
        lying = image.getexif().get(ORIENTATION, 1) in (5, 6, 7, 8)
        sides = (image.width, image.height) if lying else (image.height, image.width)
    return EncodedImage(data, place, *sides)


def _orientation(data: bytes) -> int:
    notes = data[:EXIF_WITHIN]
    if b"Exif" not in notes and b"Orientation" not in notes:  # most have neither, and opening them again costs
        return 1
    with Image.open(io.BytesIO(data), formats=FORMATS) as image:
        found: Any = image.getexif().get(ORIENTATION, 1)
    return found if found in range(1, 9) else 1


def _bad(place: str, error: Exception) -> BadRecord:
    """The BadRecord for any error of a decoder, which may raise anything; our own messages already name the place."""
    if isinstance(error, UserError):
        return BadRecord(place, str(error).removeprefix(f"{place}: "))
    if isinstance(error, Image.DecompressionBombError):
        return BadRecord(place, "the image has far too many pixels, which may be an attack on memory; shrink it first")
    return BadRecord(place, f"this cannot be read as an image ({reason_of(error)})")
