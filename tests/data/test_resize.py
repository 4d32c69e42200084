"""Pillow's resize and torch's 8-bit one: the same values, give or take a level, whichever a processor is faster at."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from equipoise.data import resize


@pytest.mark.parametrize(("height", "width", "sides"), [(97, 130, (64, 64)), (300, 40, (32, 48)), (9, 9, (20, 12))])
def test_both_ways_agree(monkeypatch, height, width, sides):
    make = torch.Generator().manual_seed(0)
    coarse = torch.randint(0, 256, (1, 3, 6, 6), generator=make).float()
    smooth = torch.nn.functional.interpolate(coarse, (height, width), mode="bilinear")[0].permute(1, 2, 0)
    pixels = smooth.to(torch.uint8).numpy()[1:, 2:]  # a part, whose rows do not follow each other
    found = []
    for by_torch in (True, False):
        monkeypatch.setattr(resize, "BY_TORCH", by_torch)
        found.append(resize.resize_pixels(pixels, *sides).astype(int))
    assert found[0].shape == found[1].shape == (sides[1], sides[0], 3)
    assert np.abs(found[0] - found[1]).max() <= 1
