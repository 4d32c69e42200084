"""Crop and resize a whole batch at once: Pillow's antialiased bicubic as two batched matrix products.

Resizing is separable and linear, so each image is `rows @ image @ columns.T`, with one small weight matrix per axis.
Each output pixel is a weighted mean of the input pixels within the kernel's support of its centre; when an image
shrinks the kernel is stretched by the same factor (that is the antialiasing). A box may have fractional edges; as in
Pillow, pixels of the image beyond the box still count, so resampling a box equals resizing the whole, then cropping.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

BICUBIC_SUPPORT = 2.0


def resample(images: Tensor, boxes: Tensor, size: int | tuple[int, int]) -> Tensor:
    """images [N, C, H, W] float and boxes [N, 4] (x0, y0, x1, y1 in pixels, inside the image) -> [N, C, *size]."""
    assert images.is_floating_point(), "resample works on floats"
    n, channels, height, width = images.shape
    out_height, out_width = (size, size) if isinstance(size, int) else size
    x0, y0, x1, y1 = boxes.to(images).unbind(1)
    rows = _weights(y0, y1, height, out_height)
    columns = _weights(x0, x1, width, out_width)
    # the image's own rows come first, so that both products are one plain batched product without copied weights
    tall = images.permute(0, 2, 1, 3).reshape(n, height, channels * width)
    tall = (rows @ tall).view(n, out_height * channels, width)
    return (tall @ columns.mT).view(n, out_height, channels, out_width).permute(0, 2, 1, 3)


def bicubic(x: Tensor) -> Tensor:
    """Keys' cubic kernel with a = -1/2, in truncated powers: no branches, zero where |x| >= 2."""
    x = x.abs()
    outer, inner = (2 - x).clamp(min=0), (1 - x).clamp(min=0)
    return outer * outer * (outer - 1) / 2 + inner * inner * (1 - 2 * inner)


def _weights(low: Tensor, high: Tensor, pixels: int, out: int) -> Tensor:
    """[N, out, pixels]: what each of `pixels` gives to each of `out` pixels spread over [low, high)."""
    scale = ((high - low) / out)[:, None]
    stretch = scale.clamp(min=1)
    centre = low[:, None] + (torch.arange(out, device=low.device, dtype=low.dtype) + 0.5) * scale
    # only the few pixels under the kernel are computed; a box inside the image bounds how many those can be
    taps = min(pixels, math.ceil(2 * BICUBIC_SUPPORT * max(1.0, pixels / out)))
    first = (centre - BICUBIC_SUPPORT * stretch - 0.5).ceil().clamp(min=0, max=pixels - taps)
    place = first[:, :, None] + torch.arange(taps, device=low.device, dtype=low.dtype)
    weight = bicubic((place + 0.5 - centre[:, :, None]) / stretch[:, :, None])
    weight = weight / weight.sum(-1, keepdim=True)
    return weight.new_zeros(len(low), out, pixels).scatter_(2, place.long(), weight)
