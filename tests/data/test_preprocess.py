"""Preprocessing against open_clip's and torchvision's own transforms, and what may not be silent."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
import torch
from PIL import Image

from equipoise.data.encoded_image import encoded
from equipoise.data.preprocess import OPENAI_MEAN, OPENAI_STD, Preprocess, random_crops
from equipoise.types import UserError

LEVEL = 1 / 255 / min(OPENAI_STD)  # one 8-bit level, once normalised


def picture(height: int, width: int, seed: int = 0) -> Image.Image:
    small = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    return Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)


def batch(height: int, width: int, n: int = 4) -> torch.Tensor:
    pixels = [np.asarray(picture(height, width, seed)) for seed in range(n)]
    return torch.from_numpy(np.stack(pixels)).permute(0, 3, 1, 2).contiguous()


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


SIZES = [(224, 224), (375, 500), (500, 333), (100, 64), (64, 64), (97, 1301), (225, 224), (1, 30)]


@pytest.mark.parametrize(("height", "width"), SIZES)
def test_pictures_match_open_clip(open_clip, height, width):
    image = picture(height, width)
    expected = open_clip.image_transform(224, is_train=False)(image)
    off = (Preprocess().for_evaluation(image)[0] - expected).abs()
    assert off.max() < 1.01 * LEVEL
    assert off.mean() < 0.01 * LEVEL


@pytest.mark.parametrize(("height", "width"), [(224, 224), (300, 300), (64, 64), (224, 300)])
def test_square_pictures_and_ready_ones_match_open_clip_exactly(open_clip, height, width):
    image = picture(height, width)
    expected = open_clip.image_transform(224, is_train=False)(image)
    torch.testing.assert_close(Preprocess().for_evaluation(image)[0], expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize(("height", "width"), SIZES)
def test_tensors_match_pictures(height, width):
    images = batch(height, width, 2)
    pictures = [Image.fromarray(image.permute(1, 2, 0).numpy()) for image in images]
    off = (Preprocess().for_evaluation(images) - Preprocess().for_evaluation(pictures)).abs()
    assert off.max() < 1.5 * LEVEL


def test_an_image_of_the_right_size_is_only_normalised():
    images = batch(48, 48)
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (OPENAI_MEAN, OPENAI_STD))
    expected = (images / 255 - mean) / std
    torch.testing.assert_close(Preprocess(size=48).for_evaluation(images), expected)


def test_paths_and_pictures_may_be_mixed(tmp_path):
    image = picture(60, 80)
    image.save(tmp_path / "a.png")
    both = Preprocess(size=32).for_evaluation([image, tmp_path / "a.png", str(tmp_path / "a.png")])
    assert both.shape == (3, 3, 32, 32)
    assert torch.equal(both[0], both[1])
    assert torch.equal(both[0], both[2])
    assert torch.equal(Preprocess(size=32).for_evaluation(str(tmp_path / "a.png")), both[:1])
    assert Preprocess(size=32).for_evaluation([]).shape == (0, 3, 32, 32)


def test_training_crops_match_torchvision_inside(open_clip):
    """torchvision cuts first, then resizes; we also read the pixels just outside the crop: only the rim may differ."""
    from torchvision.transforms import functional

    images, size = batch(90, 120), 32
    preprocess = Preprocess(size=size, mean=(0, 0, 0), std=(1, 1, 1))
    boxes = random_crops(len(images), 90, 120, preprocess.crop_scale, preprocess.crop_ratio, generator())
    got = preprocess.for_training(images, generator())
    for image, box, ours in zip(images, boxes.long().tolist(), got, strict=True):
        x0, y0, x1, y1 = box
        theirs = functional.resized_crop(
            image.float(), y0, x0, y1 - y0, x1 - x0, [size, size], functional.InterpolationMode.BICUBIC, antialias=True
        ).clamp(0, 255)
        torch.testing.assert_close(ours[:, 2:-2, 2:-2] * 255, theirs[:, 2:-2, 2:-2], rtol=0, atol=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("height", "width", "scale"), [(64, 64, (0.8, 1.0)), (60, 90, (0.2, 1.0)), (40, 41, (0.9, 1.0))]
)
def test_crops_are_distributed_as_torchvision_draws_them(open_clip, height, width, scale):
    from torchvision.transforms import RandomResizedCrop

    ratio = (3 / 4, 4 / 3)
    n = 4000
    ours = random_crops(n, height, width, scale, ratio, generator())
    torch.manual_seed(0)
    image = torch.empty(3, height, width)
    theirs = torch.tensor([RandomResizedCrop.get_params(image, list(scale), list(ratio)) for _ in range(n)]).double()
    y0, x0, h, w = theirs.unbind(1)
    theirs = torch.stack([x0, y0, x0 + w, y0 + h], 1)
    assert ((ours >= 0) & (ours <= torch.tensor([width, height, width, height]))).all()
    error = (ours.var(0) / n + theirs.var(0) / n).sqrt()
    assert ((ours.mean(0) - theirs.mean(0)).abs() < 4.5 * error + 1e-9).all()
    torch.testing.assert_close(ours.std(0), theirs.std(0), rtol=0.08, atol=0.05)


@pytest.mark.parametrize(("height", "width", "expected"), [(10, 100, (43, 0, 56, 10)), (100, 10, (0, 43, 10, 56))])
def test_a_long_thin_image_falls_back_to_the_centre(height, width, expected):
    boxes = random_crops(5, height, width, (0.9, 1.0), (3 / 4, 4 / 3), generator())
    assert boxes.tolist() == [list(expected)] * 5


def test_crops_are_whole_pixels_and_fill_the_image_when_told_to():
    boxes = random_crops(50, 33, 57, (0.1, 1.0), (0.5, 2.0), generator())
    assert torch.equal(boxes, boxes.round())
    assert (boxes[:, 2:] > boxes[:, :2]).all()
    assert random_crops(3, 20, 20, (1.0, 1.0), (1.0, 1.0), generator()).tolist() == [[0, 0, 20, 20]] * 3


def test_training_is_decided_by_the_generator_alone():
    images, preprocess = batch(40, 40), Preprocess(size=32)
    first, again, other = (preprocess.for_training(images, generator(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert first.shape == (4, 3, 32, 32)
    assert first.dtype == torch.float32
    assert first.is_contiguous()


def test_overshoot_is_clamped():
    images = torch.zeros(1, 3, 20, 20, dtype=torch.uint8)
    images[..., 10:] = 255
    for out in (Preprocess(size=64).for_evaluation(images), Preprocess(size=64).for_training(images, generator())):
        low, high = Preprocess(size=20).for_evaluation(images).aminmax()
        assert out.min() >= low
        assert out.max() <= high


def test_the_open_clip_configuration_comes_back():
    preprocess = Preprocess(size=64, mean=(0.5, 0.4, 0.3), std=(0.2, 0.2, 0.3))
    assert Preprocess.from_json(preprocess.to_json()) == preprocess
    assert Preprocess.from_json({"size": [64, 64]}) == Preprocess(size=64)


def test_open_clip_reads_what_we_write(open_clip):
    from open_clip.transform import PreprocessCfg

    theirs = PreprocessCfg(**Preprocess(size=96).to_json())
    assert (theirs.size, tuple(theirs.mean), theirs.interpolation) == (96, OPENAI_MEAN, "bicubic")
    assert theirs.resize_mode == "shortest"
    assert Preprocess.from_json(vars(theirs)) == Preprocess(size=96)


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"interpolation": "bilinear"}, "interpolation is 'bilinear'"),
        ({"resize_mode": "longest"}, "resize_mode is 'longest'"),
        ({"size": [64, 32]}, "square"),
        ({"siez": 64}, "'siez' is unknown"),
    ],
)
def test_what_cannot_be_honoured_is_refused(fields, fault):
    with pytest.raises(UserError, match=fault):
        Preprocess.from_json(fields)


@pytest.mark.parametrize(
    "options", [{"size": 0}, {"std": (0.0, 1.0, 1.0)}, {"crop_scale": (0.5, 1.2)}, {"crop_ratio": (2.0, 1.0)}]
)
def test_wrong_options(options):
    with pytest.raises(UserError, match=f"preprocess.{next(iter(options))}"):
        Preprocess(**options)


@pytest.mark.parametrize("images", [torch.rand(1, 3, 8, 8), torch.zeros(3, 8, 8, dtype=torch.uint8)])
def test_images_of_another_kind_are_refused(images):
    with pytest.raises(UserError, match="must be uint8 of shape"):
        Preprocess().for_evaluation(images)
    with pytest.raises(UserError, match="must be uint8 of shape"):
        Preprocess().for_training(images, generator())


def test_a_long_thin_picture_is_never_blown_up_whole():
    out = Preprocess(size=224).for_evaluation(Image.new("RGB", (200_000, 1), "red"))
    assert out.shape == (1, 3, 224, 224)
    assert math.isclose(out[0, 0, 0, 0], (1 - OPENAI_MEAN[0]) / OPENAI_STD[0], rel_tol=1e-5)


def test_squashed_pictures_are_those_of_pillow_from_files_tensors_and_sources():
    """Both sides are resized, and a source that is asked for a squashed side gives the same pixels."""
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 70, 3), dtype=np.uint8))
    prepared = Preprocess(16, (0.5,) * 3, (0.5,) * 3, resize="squash")
    wanted = torch.from_numpy(np.array(picture.resize((16, 16), Image.Resampling.BICUBIC))).permute(2, 0, 1)
    assert torch.equal(prepared.for_evaluation([picture])[0], (wanted.float() - 127.5) / 127.5)
    whole = torch.from_numpy(np.array(picture)).permute(2, 0, 1)[None]
    torch.testing.assert_close(prepared.for_evaluation(whole)[0], (wanted.float() - 127.5) / 127.5, atol=0.02, rtol=0)
    file = io.BytesIO()
    picture.save(file, "PNG")
    assert torch.equal(encoded(file.getvalue(), "a picture").square(prepared.side), wanted)
    assert not torch.equal(encoded(file.getvalue(), "a picture").square(prepared.size), wanted)
    assert Preprocess.from_json(prepared.to_json()) == prepared
    with pytest.raises(UserError, match=r"preprocess\.resize is 'longest'"):
        Preprocess(resize="longest")
