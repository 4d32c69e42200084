"""Textures: half ink and half gap in the right places, slopes fit for anti-aliasing."""

import pytest
import torch
from torch import Tensor

from equipoise.data.scenes.language.vocabulary import TEXTURES, UNSEEN_TEXTURES
from equipoise.data.scenes.rendering.textures import TEXTURE


def points(n: int = 20000) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    x, y = (torch.rand(2, n, dtype=torch.float64) * 8 - 4).unbind()
    return x, y


def test_every_texture_is_there() -> None:
    assert set(TEXTURE) == {*TEXTURES, *UNSEEN_TEXTURES}


@pytest.mark.parametrize(
    ("name", "share"), [("solid", 1), ("striped", 0.5), ("dotted", 0.666), ("checked", 0.5), ("zigzag", 0.5)]
)
def test_share_of_ink(name: str, share: float) -> None:
    x, y = points()
    ink = TEXTURE[name](x, y, torch.zeros_like(x), 0.2) < 0
    assert ink.double().mean() == pytest.approx(share, abs=0.02)


def test_outline_is_the_stroke_within_the_edge() -> None:
    edge = torch.tensor([-0.5, -0.25, -0.15, -0.05])
    assert (TEXTURE["outlined"](edge, edge, edge, 0.2) < 0).tolist() == [False, False, True, True]


@pytest.mark.parametrize("name", ["striped", "dotted", "checked", "zigzag"])
def test_slope_is_one(name: str) -> None:
    x, y = points()
    x.requires_grad_()
    y.requires_grad_()
    value = TEXTURE[name](x, y, torch.zeros_like(x), 0.2)
    gx, gy = torch.autograd.grad(value.sum(), (x, y))
    assert ((torch.hypot(gx, gy) - 1).abs() < 1e-6).double().mean() > 0.99
