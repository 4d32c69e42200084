"""Our losses beside open_clip's `ClipLoss` and `SigLipLoss`: value and gradients, float32."""

from __future__ import annotations

import math

import pytest
import torch

from equipoise import objectives
from equipoise.forms import Sigmoid
from equipoise.spaces import Sphere
from equipoise.types import Embeddings


@pytest.mark.parametrize("n", [2, 64, 300])
@pytest.mark.parametrize("impl", ["eager", "tiled"])
def test_equals_clip_loss(open_clip, n, impl):
    make = torch.Generator().manual_seed(n)
    space = Sphere(64)
    points = [space.project(torch.randn(n, 64, generator=make)) for _ in range(2)]
    ours = [x.clone().requires_grad_() for x in (*points, torch.tensor(math.log(1 / 0.07)))]
    theirs = [x.clone().requires_grad_() for x in (*points, torch.tensor(math.log(1 / 0.07)))]

    loss = objectives.CLIP(impl=impl)(Embeddings(image=ours[0], text=ours[1]), log_scale=ours[2], space=space).total
    peer = open_clip.loss.ClipLoss()(theirs[0], theirs[1], theirs[2].exp())
    assert float(loss.detach()) == pytest.approx(float(peer.detach()), abs=1e-6)
    loss.backward()
    peer.backward()
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=0, atol=1e-6)


@pytest.mark.parametrize("n", [2, 64, 300])
@pytest.mark.parametrize("impl", ["eager", "tiled"])
def test_a_learned_bias_equals_siglip_loss(open_clip, n, impl):
    make = torch.Generator().manual_seed(n)
    space = Sphere(64)
    given = [
        *(space.project(torch.randn(n, 64, generator=make)) for _ in range(2)),
        torch.tensor(math.log(10)),
        torch.tensor(-7.0),
    ]
    ours, theirs = ([x.clone().requires_grad_() for x in given] for _ in range(2))
    objective = objectives.CLIP(form=Sigmoid(learned=True), impl=impl)
    u, v, t, b = ours
    loss = objective(Embeddings(image=u, text=v), log_scale=t, space=space, bias=b).total
    peer = open_clip.loss.SigLipLoss()(theirs[0], theirs[1], theirs[2].exp(), theirs[3])
    assert float(loss.detach()) == pytest.approx(float(peer.detach()), rel=1e-5)
    loss.backward()
    peer.backward()
    assert abs(float(b.grad)) > 1e-3
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-5, atol=1e-6)
