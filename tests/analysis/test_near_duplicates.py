"""The closest strangers against all pairs looked at at once."""

from __future__ import annotations

import pytest
import torch

from equipoise.analysis import near_duplicates as neighbours
from equipoise.analysis.near_duplicates import closest_images, closest_strangers


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    monkeypatch.setattr(neighbours, "TILE", 7)


@pytest.mark.parametrize("count", [1, 10, 10_000])
def test_closest_images_are_those_of_the_whole_matrix(count):
    torch.manual_seed(0)
    images = torch.randn(30, 4)
    whole = images @ images.T
    pairs = sorted(((whole[i, j].item(), i, j) for i in range(30) for j in range(i + 1, 30)), reverse=True)
    found = closest_images(images, lambda a, b: a @ b.T, count)
    assert [(int(a), int(b)) for _, a, b in found] == [(i, j) for _, i, j in pairs[:count]]
    assert [score for score, *_ in found] == pytest.approx([score for score, *_ in pairs[:count]], abs=1e-5)


def test_a_text_is_no_stranger_to_its_own_image():
    torch.manual_seed(0)
    images, texts, owners = torch.randn(9, 4), torch.randn(20, 4), torch.arange(20) % 9
    whole = images @ texts.T
    pairs = sorted(((whole[i, j].item(), i, j) for i in range(9) for j in range(20) if owners[j] != i), reverse=True)
    found = closest_strangers(lambda rows, cols: whole[rows, cols], owners, 9, 15)
    assert [(int(a), int(b)) for _, a, b in found] == [(i, j) for _, i, j in pairs[:15]]
