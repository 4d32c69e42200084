"""Resampling against Pillow (8-bit), torch's own antialiased bicubic (float) and a loop over pixels (float64)."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from equipoise.data.resample import bicubic, resample

SHAPES = [(32, 32, 32), (64, 48, 32), (33, 70, 96), (200, 150, 24), (5, 4, 17)]


def noise(height: int, width: int, seed: int = 0) -> np.ndarray:
    """Smooth waves under noise: noise alone would overshoot 0 and 255, which Pillow cuts between its two passes."""
    draw = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    waves = 127 + 60 * np.sin(x / 5 + seed) * np.cos(y / 7)
    return (waves[..., None] + draw.normal(0, 12, (height, width, 3))).clip(0, 255).astype(np.uint8)


def kernel(x: float, a: float = -0.5) -> float:
    x = abs(x)
    if x < 1:
        return (a + 2) * x**3 - (a + 3) * x**2 + 1
    return a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a if x < 2 else 0.0


def brute_force_line(line: list[float], low: float, high: float, out: int) -> list[float]:
    scale = (high - low) / out
    stretch = max(scale, 1.0)
    result = []
    for i in range(out):
        centre = low + (i + 0.5) * scale
        weights = [kernel((j + 0.5 - centre) / stretch) for j in range(len(line))]
        result.append(sum(w * v for w, v in zip(weights, line, strict=True)) / sum(weights))
    return result


def test_the_kernel_is_keys_cubic():
    x = torch.linspace(-3, 3, 601, dtype=torch.double)
    torch.testing.assert_close(bicubic(x), torch.tensor([kernel(v) for v in x.tolist()], dtype=torch.double))


@settings(max_examples=60, deadline=None)
@given(pixels=st.integers(1, 30), out=st.integers(1, 30), ends=st.tuples(st.floats(0, 1), st.floats(0, 1)))
def test_a_line_against_a_loop(pixels, out, ends):
    low, high = sorted(end * pixels for end in ends)
    if high - low < 1e-3:
        low, high = 0.0, float(pixels)
    line = torch.randn(pixels, dtype=torch.double, generator=torch.Generator().manual_seed(pixels))
    got = resample(line[None, None, None], torch.tensor([[low, 0.0, high, 1.0]], dtype=torch.double), (1, out))
    expected = torch.tensor(brute_force_line(line.tolist(), low, high, out), dtype=torch.double)
    torch.testing.assert_close(got[0, 0, 0], expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("height", "width", "size"), SHAPES)
def test_boxes_match_pillow(height, width, size):
    pixels = noise(height, width)
    draw = np.random.default_rng(1)
    whole = (0.0, 0.0, float(width), float(height))
    boxes = [whole]
    for _ in range(5):
        x0, y0 = draw.uniform(0, width / 3), draw.uniform(0, height / 3)
        boxes.append((x0, y0, draw.uniform(2 * width / 3, width), draw.uniform(2 * height / 3, height)))
    image = Image.fromarray(pixels)
    expected = np.stack([np.asarray(image.resize((size, size), Image.Resampling.BICUBIC, box=box)) for box in boxes])
    batch = torch.from_numpy(pixels).permute(2, 0, 1).float().expand(len(boxes), -1, -1, -1)
    got = resample(batch, torch.tensor(boxes), size).clamp(0, 255).permute(0, 2, 3, 1)
    off = (got - torch.from_numpy(expected).float()).abs()
    assert (got.round() - torch.from_numpy(expected).float()).abs().max() <= 1  # Pillow rounds after each of two passes
    assert off.mean() < 0.35


@pytest.mark.parametrize(("height", "width", "size"), SHAPES)
def test_whole_images_match_torch(height, width, size):
    images = torch.randn(3, 2, height, width, dtype=torch.double)
    boxes = torch.tensor([[0, 0, width, height]]).expand(3, 4)
    expected = F.interpolate(images, (size, size + 3), mode="bicubic", antialias=True)
    torch.testing.assert_close(resample(images, boxes, (size, size + 3)), expected, rtol=0, atol=1e-12)


def test_the_whole_image_at_its_own_size_is_left_as_it_is():
    images = torch.rand(2, 3, 9, 11)
    assert torch.equal(resample(images, torch.tensor([[0.0, 0.0, 11.0, 9.0]]).expand(2, 4), (9, 11)), images)


def test_each_image_has_its_own_box():
    images = torch.rand(4, 3, 20, 20)
    boxes = torch.tensor([[0, 0, 20, 20], [1, 2, 9, 14], [3.5, 0, 20, 8.25], [10, 10, 12, 12]])
    alone = [resample(images[i : i + 1], boxes[i : i + 1], 16) for i in range(4)]
    torch.testing.assert_close(resample(images, boxes, 16), torch.cat(alone))


def test_a_flat_image_stays_flat():
    images = torch.full((1, 1, 40, 30), 7.0)
    box = torch.tensor([[0.3, 1.7, 29.9, 39.2]])
    for size in (1, 7, 64):
        torch.testing.assert_close(resample(images, box, size), torch.full((1, 1, size, size), 7.0))


def test_float32_stays_close_to_float64():
    images = torch.rand(2, 3, 500, 375, dtype=torch.double)
    boxes = torch.tensor([[0, 0, 375, 500], [20.3, 40.1, 350.7, 444.4]], dtype=torch.double)
    off = resample(images.float(), boxes.float(), 224) - resample(images, boxes, 224)
    assert off.abs().max() < 1e-4
    assert not math.isnan(off.sum())


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_the_gpu_agrees():
    images, boxes = torch.rand(4, 3, 50, 40), torch.tensor([[1.5, 2.0, 33.0, 47.5]]).expand(4, 4)
    torch.testing.assert_close(resample(images.cuda(), boxes.cuda(), 32).cpu(), resample(images, boxes, 32))
