"""Pictures from bytes: the quick way against Pillow, crops against torchvision, and what is wrong with a picture."""

from __future__ import annotations

import io
import pickle
import zlib

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from equipoise.data import jpeg
from equipoise.data.bad_records import BadRecord
from equipoise.data.decode import ORIENTATION, read_rgb
from equipoise.data.encoded_image import encoded
from equipoise.data.preprocess import Preprocess, random_crops

SIZES = [(375, 500), (500, 333), (97, 130), (64, 64), (30, 200), (1, 7)]


def picture(height: int, width: int, seed: int = 0, mode: str = "RGB") -> Image.Image:
    small = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    return Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC).convert(mode)


def encode(image: Image.Image, kind: str = "JPEG", **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def with_pillow(data: bytes) -> Image.Image:
    return read_rgb(Image.open(io.BytesIO(data)))


def evaluated(pixels: torch.Tensor, size: int) -> torch.Tensor:
    return Preprocess(size).for_evaluation(pixels[None])


@pytest.mark.parametrize(("height", "width"), SIZES)
@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
def test_a_jpeg_is_what_pillow_reads(height, width, mode):
    data = encode(picture(height, width, mode=mode), quality=90)
    found = encoded(data, "here")
    assert (found.height, found.width) == (height, width)
    assert (found.header is None) == (mode == "CMYK")
    np.testing.assert_array_equal(found.pixels(), np.asarray(with_pillow(data)))


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_every_orientation_is_followed(orientation, kind):
    note = Image.Exif()
    note[ORIENTATION] = orientation
    data = encode(picture(30, 50), kind, exif=note)
    found = encoded(data, "here")
    upright = np.asarray(with_pillow(data))
    assert (found.height, found.width) == upright.shape[:2]
    np.testing.assert_array_equal(found.pixels(), upright)
    np.testing.assert_array_equal(found.square(16), encoded(encode(Image.fromarray(upright), "PNG"), "").square(16))


@pytest.mark.parametrize(
    ("kind", "mode"), [("PNG", "RGB"), ("PNG", "RGBA"), ("PNG", "P"), ("PNG", "LA"), ("PNG", "I;16"), ("WEBP", "RGBA")]
)
def test_other_formats_go_through_pillow(kind, mode):
    image = picture(40, 60).convert("L").convert("I;16") if mode == "I;16" else picture(40, 60, mode=mode)
    if mode.endswith("A"):
        image.putalpha(90)
    data = encode(image, kind)
    np.testing.assert_array_equal(encoded(data, "here").reduced(2)[0], np.asarray(with_pillow(data)))


@pytest.mark.parametrize(("height", "width"), SIZES)
@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_the_square_is_the_evaluation_of_a_file(height, width, kind, tmp_path):
    data = encode(picture(height, width), kind)
    (tmp_path / "a").write_bytes(data)
    for size in (224, 70):  # below half the shorter side a JPEG is read smaller, see the next test
        if min(height, width) < 2 * 2 * size or kind == "PNG":
            expected = Preprocess(size).for_evaluation(tmp_path / "a")
            torch.testing.assert_close(evaluated(encoded(data, "").square(size), size), expected, rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("height", "width", "reduction"), [(401, 500, 2), (900, 1203, 4), (1700, 1601, 8)])
def test_a_large_jpeg_is_read_smaller_and_looks_the_same(height, width, reduction):
    data = encode(picture(height, width), quality=95)
    found = encoded(data, "here")
    assert found.reduced(reduction)[0].shape == (-(-height // reduction), -(-width // reduction), 3)
    assert jpeg.reduction_for(height, width, 2 * 96) == reduction
    whole = encoded(encode(with_pillow(data), "PNG"), "").square(96).int()
    off = (found.square(96).int() - whole).abs()
    assert off.float().mean() < 0.5
    assert off.max() <= 6
    box = (16.0, 24.0, width // 8 * 8 - 32.0, height // 8 * 8 - 16.0)  # whole pixels of the smaller picture too
    part = encoded(encode(with_pillow(data), "PNG"), "").crops([box], 64)[0].int()
    assert (found.crops([box], 64)[0].int() - part).abs().float().mean() < 1.5


def test_a_reduced_jpeg_keeps_enough_pixels():
    assert jpeg.reduction_for(448, 500, 224) == 2
    assert jpeg.reduction_for(447, 500, 224) == 1
    assert jpeg.reduction_for(5000, 224 * 8, 224) == 8


@pytest.mark.parametrize(
    ("height", "width", "sides"),
    [(300, 401, (43, 32)), (427, 640, (384, 256)), (640, 480, (32, 43)), (1, 7, (7, 1)), (30, 200, (200, 30))],
)
def test_a_shrunk_picture_is_the_resized_one(height, width, sides):
    """Also where a JPEG that is read smaller ends with a part of a pixel."""
    image = encoded(encode(picture(height, width), quality=95), "")
    slowly = np.asarray(image.resized((0, 0, width, height), sides)).astype(int)
    found = image.shrunk(*sides)
    assert (found.mode, found.size) == ("RGB", sides)
    assert np.abs(np.asarray(found) - slowly).max() <= 2


@pytest.mark.parametrize(("height", "width"), [(375, 500), (97, 130), (30, 200)])
def test_crops_are_torchvisions(open_clip, height, width):
    from torchvision.transforms import functional

    data = encode(picture(height, width), quality=95)
    whole = with_pillow(data)
    boxes = random_crops(5, height, width, (0.3, 1.0), (3 / 4, 4 / 3), torch.Generator().manual_seed(0))
    for x0, y0, x1, y1 in boxes.long().tolist():
        size = min(x1 - x0, y1 - y0) // 2 + 1  # more than half, so that nothing is read smaller
        theirs = functional.resized_crop(
            whole, y0, x0, y1 - y0, x1 - x0, [size, size], functional.InterpolationMode.BICUBIC
        )
        ours = encoded(data, "").crops([(x0, y0, x1, y1)], size)[0]
        off = (ours.permute(1, 2, 0).int() - torch.from_numpy(np.array(theirs)).int()).abs()
        assert off.max() <= 1
        assert off.float().mean() < 0.02


def test_crops_are_those_of_the_tensor_path_but_for_the_rim():
    data = encode(picture(90, 120), "PNG")
    pixels = torch.from_numpy(np.array(with_pillow(data))).permute(2, 0, 1)[None]
    plain = Preprocess(32, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
    for box in random_crops(5, 90, 120, (0.3, 1.0), (3 / 4, 4 / 3), torch.Generator().manual_seed(1)):
        theirs = plain.cropped(pixels, box[None])[0] * 255
        ours = encoded(data, "").crops([tuple(box.tolist())], 32)[0].float()
        assert (ours - theirs)[:, 2:-2, 2:-2].abs().max() <= 1.01


def huge_png(side: int) -> bytes:
    """A PNG that says it has side x side pixels, all the same: small, until it is decoded."""
    header = side.to_bytes(4, "big") * 2 + bytes([8, 2, 0, 0, 0])
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(b"\0" * 10_000)), (b"IEND", b""))
    chunks = (
        len(body).to_bytes(4, "big") + name + body + zlib.crc32(name + body).to_bytes(4, "big") for name, body in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def huge_jpeg(side: int) -> bytes:
    data = bytearray(encode(picture(16, 16)))
    start = data.index(b"\xff\xc0")
    data[start + 5 : start + 9] = side.to_bytes(2, "big") * 2
    return bytes(data)


@pytest.mark.parametrize("make", [huge_png, huge_jpeg])
@pytest.mark.parametrize("side", [8_200, 10_000, 30_000])  # the first is within Pillow's own limit
@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_too_many_pixels_are_refused_by_the_header(make, side):
    with pytest.raises(BadRecord, match=r"a\.tar, record 7: .* pixels"):
        encoded(make(side), "a.tar, record 7")


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"", "the image is empty, 0 bytes"),
        (b"no image", "cannot be read as an image"),
        (b"\xff\xd8\xff\xe0 and then nothing", "cannot be read as an image"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "cannot be read as an image"),
    ],
)
def test_what_is_no_picture_is_named(data, fault):
    with pytest.raises(BadRecord, match=f"a.tar, record 7: .*{fault}") as error:
        encoded(data, "a.tar, record 7")
    assert error.value.fault.place == "a.tar, record 7"
    assert "0x" not in str(error.value)  # no addresses of objects
    assert str(pickle.loads(pickle.dumps(error.value))) == str(error.value)  # on its way from a worker


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_half_a_picture_is_no_picture(kind):
    data = encode(picture(200, 300), kind)
    with pytest.raises(BadRecord, match="record 7"):
        encoded(data[: len(data) // 2], "record 7").check()
    with pytest.raises(BadRecord, match="record 7"):
        encoded(data[: len(data) // 2], "record 7").crops([(0, 0, 300, 200)], 20)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "TIFF", "BMP"])
@given(data=st.data())
@settings(max_examples=80, deadline=None)
@pytest.mark.filterwarnings("ignore")
def test_damaged_pictures_raise_nothing_else(kind, data):
    whole = bytearray(encode(picture(24, 33), kind))
    for _ in range(data.draw(st.integers(0, 8))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = whole[: data.draw(st.integers(0, len(whole)))] if data.draw(st.booleans()) else whole
    try:
        found = encoded(bytes(cut), "here")
        assert found.crops([(0, 0, found.width, found.height)], 8)[0].shape == (3, 8, 8)
        assert found.square(8).shape == (3, 8, 8)
    except BadRecord:
        pass


def test_without_simplejpeg_pillow_reads_jpegs(monkeypatch):
    data = encode(picture(100, 120), quality=90)
    quick = encoded(data, "").square(40)
    monkeypatch.setattr(jpeg, "_simplejpeg", lambda: None)
    slow = encoded(data, "")
    assert slow.header is None
    assert (slow.square(40).int() - quick.int()).abs().max() <= 4
