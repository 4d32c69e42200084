"""Pictures that visitors give: checked, made small and remembered for a while under a name that nobody can guess."""

from __future__ import annotations

import io
import secrets
from collections import OrderedDict

from PIL import Image

from equipoise.data.bad_records import BadRecord
from equipoise.data.encoded_image import FORMATS, EncodedImage, encoded
from equipoise.serve.errors import Refused
from equipoise.serve.limits import Limits

PLACE = "your picture"
SIDE = 512  # pixels that are kept, or twice the model's side where that is more
REMEMBERED = 128  # pictures, the latest; some 0.8 MB each


class Uploads:
    def __init__(self, limits: Limits, model_side: int):
        self.limits, self.side = limits, max(SIDE, 2 * model_side)
        self._pictures: OrderedDict[str, Image.Image] = OrderedDict()

    def add(self, data: bytes) -> str:
        """Read a picture file and return its name; raises Refused for what is no picture, or too large a one."""
        picture = self._read(data)
        name = secrets.token_urlsafe(18)
        self._pictures[name] = picture
        if len(self._pictures) > REMEMBERED:
            self._pictures.popitem(last=False)
        return name

    def get(self, name: str) -> Image.Image:
        if name not in self._pictures:
            raise Refused(404, "that picture is no longer remembered; give it again")
        self._pictures.move_to_end(name)
        return self._pictures[name]

    def _read(self, data: bytes) -> Image.Image:
        self._require_few_pixels(data)
        try:
            return self._small(encoded(data, PLACE))
        except BadRecord as error:
            raise Refused(415, f"{PLACE}: {error.fault.reason}; give a JPEG, PNG, WebP, GIF, BMP or TIFF") from None

    def _require_few_pixels(self, data: bytes) -> None:
        """By the header alone: what is read after it may decode all of the picture."""
        try:
            with Image.open(io.BytesIO(data), formats=FORMATS) as image:
                width, height = image.size
        except Image.DecompressionBombError:
            width = height = self.limits.pixels
        except Exception:  # no picture at all, which is said by whoever reads it
            return
        if width * height > self.limits.pixels:
            most = f"{self.limits.pixels:,}"
            raise Refused(413, f"{PLACE} has more than {most} pixels, which is all that is read here; make it smaller")

    def _small(self, header: EncodedImage) -> Image.Image:
        scale = min(1.0, self.side / max(header.width, header.height))
        sides = max(1, round(header.width * scale)), max(1, round(header.height * scale))
        return header.resized((0, 0, header.width, header.height), sides)
