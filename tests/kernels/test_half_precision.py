"""bfloat16 points in many tiles: no further from float64 than one block is, for sums over tiles are float32."""

from __future__ import annotations

import math

import pytest
import torch
from every_space import space_named
from torch import Tensor

from equipoise.forms import FORMS, CrossEntropy
from equipoise.kernels import contrast
from equipoise.targets import OneHot, Smoothed

N, DIM, TILE = 192, 16, 12


def points(space) -> tuple[Tensor, Tensor]:
    noise = torch.Generator().manual_seed(3)
    u, w = (torch.randn(N, DIM, generator=noise) for _ in range(2))
    return space.project(u).bfloat16(), space.project(0.4 * u + w).bfloat16()


def loss_and_grads(u: Tensor, v: Tensor, impl: str, **parts) -> list[Tensor]:
    log_scale = torch.tensor(math.log(5.0), dtype=torch.promote_types(u.dtype, torch.float32))
    leaves = [x.clone().requires_grad_() for x in (u, v, log_scale)]
    loss = contrast(leaves[0], leaves[1], log_scale=leaves[2], impl=impl, tile=TILE, **parts)
    return [loss.detach(), *torch.autograd.grad(loss, leaves)]


def furthest(found: list[Tensor], truth: list[Tensor]) -> list[float]:
    return [float((a.double() - b).abs().max() / b.abs().max()) for a, b in zip(found, truth, strict=True)]


@pytest.mark.parametrize(
    ("name", "form"), [("sphere", "cross_entropy"), ("euclidean", "cross_entropy"), ("sphere", "symmetric_kl")]
)
def test_tiles_are_no_further_from_float64_than_one_block(name, form):
    space = space_named(name, DIM)
    parts = {"space": space, "target": Smoothed(0.1), "form": FORMS[form]}
    if form == "cross_entropy":
        parts |= {"target": OneHot(), "form": CrossEntropy()}
    u, v = points(space)
    truth = loss_and_grads(u.double(), v.double(), "eager", **parts)
    found, whole = (loss_and_grads(u, v, impl, **parts) for impl in ("tiled", "eager"))
    tiles, block = furthest(found, truth), furthest(whole, truth)
    assert all(ours <= theirs + 2**-8 for ours, theirs in zip(tiles, block, strict=True)), (tiles, block)
    assert [x.dtype for x in found] == [torch.float32, torch.bfloat16, torch.bfloat16, torch.float32]
