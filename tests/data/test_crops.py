"""Crops of encoded pictures bit for bit those of the plain way: whole decode, resize, a copy for every step."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

from equipoise.data import jpeg, resize
from equipoise.data.crops import cut_crops
from equipoise.data.decode import read_rgb
from equipoise.data.encoded_image import EncodedImage, encoded
from equipoise.data.preprocess import Preprocess
from equipoise.data.source import Pair, Record

KINDS = [("RGB", "JPEG"), ("L", "JPEG"), ("CMYK", "JPEG"), ("RGBA", "PNG"), ("LA", "PNG"), ("P", "PNG"), ("L", "PNG")]
BOXES = [(0, 0, 90, 70), (3, 5, 88, 69), (10, 20, 42, 52), (89, 0, 90, 70), (40, 30, 41, 31)]  # 32 x 32, thin, a pixel


def file_of(mode: str, kind: str, sides: tuple[int, int] = (90, 70), seed: int = 0, **options: object) -> bytes:
    channels = {"L": 1, "P": 1, "LA": 2, "RGBA": 4, "CMYK": 4}.get(mode, 3)
    values = np.random.default_rng(seed).integers(0, 256, (sides[1], sides[0], channels), dtype=np.uint8)
    image = Image.fromarray(values.squeeze(), "L" if mode == "P" else mode)
    buffer = io.BytesIO()
    (image.convert("P") if mode == "P" else image).save(buffer, kind, **options)
    return buffer.getvalue()


def plain_crop(image: EncodedImage, box: Sequence[float], size: int, by_torch: bool) -> torch.Tensor:
    """A decode of its own, a part that is copied before it is resized, by one library; planes are copied too."""
    reduction = jpeg.reduction_for(box[3] - box[1], box[2] - box[0], size) if image.header else 1
    pixels, reduction = image.reduced(reduction)
    x0, y0, x1, y1 = (round(edge / reduction) for edge in box)
    part = np.ascontiguousarray(pixels[y0:y1, x0:x1])
    if by_torch:
        # not of contiguous planes: for a crop of one pixel torch 2.13 then takes planes for pixels
        seen = torch.from_numpy(part).permute(2, 0, 1)[None]
        return F.interpolate(seen, (size, size), mode="bicubic", antialias=True)[0].contiguous()
    resized = Image.fromarray(part).resize((size, size), Image.Resampling.BICUBIC)
    return torch.from_numpy(np.array(resized)).permute(2, 0, 1).contiguous()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("by_torch", [True, False])
@pytest.mark.parametrize(("mode", "kind"), KINDS)
@pytest.mark.parametrize("size", [1, 8, 32, 70, 224])  # read at an eighth, a half, as they are; made larger
def test_crops_are_bit_for_bit_the_plain_ones(monkeypatch, mode, kind, size, by_torch):
    monkeypatch.setattr(resize, "BY_TORCH", by_torch)
    image = encoded(file_of(mode, kind), "")
    found = image.crops(BOXES, size)
    encoded(file_of("RGB", "JPEG", seed=1), "").crops(BOXES, size)  # goes over the memory that was lent
    for crop, box in zip(found, BOXES, strict=True):
        assert (crop.shape, crop.dtype) == ((3, size, size), torch.uint8)
        assert torch.equal(crop, plain_crop(image, box, size, by_torch))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_turned_pictures_keep_no_lent_memory(orientation):
    note = Image.Exif()
    note[0x0112] = orientation
    image = encoded(file_of("RGB", "JPEG", exif=note), "")
    boxes = [(0, 0, image.width, image.height), (1, 2, 33, 66)]
    found = image.crops(boxes, 32)
    encoded(file_of("RGB", "JPEG", seed=1), "").crops(boxes, 32)
    for crop, box in zip(found, boxes, strict=True):
        assert torch.equal(crop, plain_crop(image, box, 32, resize.BY_TORCH))


def test_a_picture_that_is_larger_than_the_memory_that_is_lent():
    sides = (1500, 1000)
    assert 3 * sides[0] * sides[1] > jpeg.REUSED
    image = encoded(file_of("RGB", "JPEG", sides), "")
    boxes = [(0.0, 0.0, 1500.0, 1000.0), (7.0, 9.0, 700.0, 800.0)]
    for crop, box in zip(image.crops(boxes, 900), boxes, strict=True):
        assert torch.equal(crop, plain_crop(image, box, 900, resize.BY_TORCH))


def test_pixels_that_are_asked_for_are_the_callers_own():
    image, other = (encoded(file_of("RGB", "JPEG", seed=seed), "") for seed in (0, 1))
    kept = image.pixels()
    before = kept.copy()
    other.crops(BOXES, 32)
    other.pixels()
    np.testing.assert_array_equal(kept, before)
    np.testing.assert_array_equal(kept, np.asarray(read_rgb(Image.open(io.BytesIO(image.data)))))


class Files:
    """Records that are pictures in memory."""

    def __init__(self, images: Sequence[EncodedImage]):
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    def open(self, index: int) -> Record:
        return Record(Pair(str(index), ("a picture",)), self.images[index])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("by_torch", [True, False])
def test_a_batch_holds_the_crops_and_is_normalised_bit_for_bit(monkeypatch, by_torch):
    monkeypatch.setattr(resize, "BY_TORCH", by_torch)
    images = [encoded(file_of(*kind, seed=seed), "") for seed, kind in enumerate(KINDS)]
    boxes = [torch.tensor(box).double().expand(len(images), 4) for box in BOXES[:2]]
    found = cut_crops(Files(images), range(len(images)), 224, [lambda rows, _, b=b: b[list(rows)] for b in boxes])
    preprocess = Preprocess(224)
    for pixels, box in zip(found.pixels, BOXES, strict=False):
        plain = torch.stack([plain_crop(image, box, 224, by_torch) for image in images])
        assert torch.equal(pixels, plain)
        seen = preprocess.normalised(pixels)
        mean, std = (torch.tensor(of).view(3, 1, 1) * 255 for of in (preprocess.mean, preprocess.std))
        assert seen.is_contiguous()
        assert torch.equal(seen, plain.float().clamp(0, 255).sub(mean).div(std))
    assert preprocess.normalised(found.pixels[0][:0]).shape == (0, 3, 224, 224)
