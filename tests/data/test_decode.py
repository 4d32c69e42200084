"""Reading pictures: every mode becomes upright RGB over white; whatever is wrong with a file is one sentence."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from PIL import Image

from equipoise.data import decode
from equipoise.data.decode import read_image
from equipoise.types import UserError

RED, WHITE = [255, 0, 0], [255, 255, 255]


def first_pixel(image: Image.Image) -> list[int]:
    return read_image(image)[:, 0, 0].tolist()


def test_rgb_is_read_as_it_is(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    expected = torch.from_numpy(pixels).permute(2, 0, 1)
    for picture in (tmp_path / "a.png", str(tmp_path / "a.png"), Image.fromarray(pixels)):
        image = read_image(picture)
        assert image.dtype == torch.uint8
        assert torch.equal(image, expected)


@pytest.mark.parametrize(
    ("mode", "colour", "expected"),
    [
        ("1", 1, WHITE),
        ("L", 90, [90, 90, 90]),
        ("I;16", 90 * 256 + 17, [90, 90, 90]),
        ("I", 90 * 256 + 17, [90, 90, 90]),
        ("CMYK", (0, 255, 255, 0), RED),
        ("RGBA", (255, 0, 0, 255), RED),
        ("RGBA", (255, 0, 0, 0), WHITE),
        ("RGBA", (255, 0, 0, 128), [255, 127, 127]),
        ("LA", (0, 0), WHITE),
    ],
)
def test_modes(mode, colour, expected):
    assert first_pixel(Image.new(mode, (3, 2), colour)) == expected


def test_palette_with_and_without_a_transparent_colour(tmp_path):
    image = Image.new("RGB", (4, 4), "red").convert("P", palette=Image.Palette.ADAPTIVE)
    assert first_pixel(image) == RED
    image.save(tmp_path / "a.png", transparency=image.getpixel((0, 0)))
    assert read_image(tmp_path / "a.png")[:, 0, 0].tolist() == WHITE


def test_rgb_with_a_transparent_colour(tmp_path):
    Image.new("RGB", (4, 4), "red").save(tmp_path / "a.png", transparency=(255, 0, 0))
    assert read_image(tmp_path / "a.png")[:, 0, 0].tolist() == WHITE


def test_exif_orientation_is_followed(tmp_path):
    image = Image.new("RGB", (6, 4), "white")
    image.putpixel((0, 0), (255, 0, 0))
    note = Image.Exif()
    note[0x0112] = 6  # the camera was turned: the top row is to the right
    image.save(tmp_path / "a.png", exif=note)
    upright = read_image(tmp_path / "a.png")
    assert upright.shape == (3, 6, 4)
    assert upright[:, 0, 3].tolist() == RED


def test_the_first_frame_of_several(tmp_path):
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "blue")]
    frames[0].save(tmp_path / "a.gif", save_all=True, append_images=frames[1:])
    assert read_image(tmp_path / "a.gif")[:, 0, 0].tolist() == RED


@pytest.mark.parametrize(
    ("content", "fault"), [(None, "no such image file"), (b"no image", "cannot be read"), (b"", "cannot")]
)
def test_unreadable_files_are_named(content, fault, tmp_path):
    path = tmp_path / "a.jpg"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=rf"a\.jpg: .*{fault}"):
        read_image(path)


@pytest.mark.parametrize("mode", ["P", "RGBA", "LA", "I;16", "CMYK", "RGB"])
def test_pictures_of_many_strips(mode, monkeypatch):
    """What is converted a strip at a time is what is converted at once."""
    pixels = np.random.default_rng(0).integers(0, 256, (37, 23, 4), dtype=np.uint8)
    wide = pixels[..., 0].astype(np.uint16) * 256
    image = Image.fromarray(wide) if mode == "I;16" else Image.fromarray(pixels).convert(mode)
    image.info |= {"transparency": 3} if mode == "P" else {}
    whole = read_image(image)
    monkeypatch.setattr(decode, "STRIP", 100)
    assert torch.equal(read_image(image), whole)


@pytest.mark.parametrize("limit", [30, 60, 99])  # Pillow itself stops at twice its limit, and warns above it
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_too_many_pixels(limit, tmp_path, monkeypatch):
    Image.new("RGB", (10, 10)).save(tmp_path / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    for picture, name in ((tmp_path / "a.png", r"a\.png"), (Image.new("RGB", (10, 10)), "the given image")):
        with pytest.raises(UserError, match=f"{name}: .* more than {limit} pixels"):
            read_image(picture)


@pytest.mark.parametrize("kind", ["png", "jpeg", "gif", "webp", "tiff", "bmp", "ppm"])
@pytest.mark.filterwarnings("ignore")  # Pillow warns of odd headers
def test_damaged_files_never_raise_anything_else(kind, tmp_path):
    draw = random.Random(kind)
    path = tmp_path / f"a.{kind}"
    pixels = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    whole, refused = path.read_bytes(), 0
    for _ in range(60):
        damaged = bytearray(whole[: draw.randrange(len(whole))] if draw.random() < 0.3 else whole)
        for _ in range(min(len(damaged), 10)):
            damaged[draw.randrange(min(len(damaged), 120))] = draw.randrange(256)
        path.write_bytes(damaged)
        try:
            assert read_image(path).shape[0] == 3
        except UserError:
            refused += 1
    assert refused > 10
