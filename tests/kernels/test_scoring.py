"""Scoring, the one value objectives get, and engines that take any scorer."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from equipoise.forms import CrossEntropy, Divergence, Sigmoid
from equipoise.kernels import Scoring, contrast
from equipoise.objectives import CLIP
from equipoise.spaces import Sphere
from equipoise.targets import OneHot, Smoothed
from equipoise.types import Embeddings, UserError

SPACE = Sphere(6)


@dataclass(frozen=True)
class Bilinear:
    """No space: u and v are of different kinds, so it is not symmetric, and it has no points of its own."""

    dim: int = 6

    def similarity(self, rows: Tensor, cols: Tensor) -> Tensor:
        return rows * torch.arange(1.0, self.dim + 1, dtype=rows.dtype) @ cols.T.roll(1, 0)


def points(n: int, seed: int) -> Tensor:
    return SPACE.project(torch.randn(n, 6, generator=torch.Generator().manual_seed(seed)).double())


@pytest.mark.parametrize("form", [CrossEntropy(), Divergence("kl")], ids=["closed_form_grad", "normalized"])
def test_engines_need_dim_and_similarity_alone(form):
    u, v = points(7, 1).requires_grad_(), points(7, 2).requires_grad_()
    how = {"space": Bilinear(), "target": Smoothed(), "form": form, "log_scale": 0.4}
    eager = contrast(u, v, impl="eager", **how)
    tiled = contrast(u, v, impl="tiled", tile=3, **how)
    torch.testing.assert_close(tiled, eager, rtol=0, atol=1e-12)
    for one, other in zip(*(torch.autograd.grad(loss, (u, v)) for loss in (eager, tiled)), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)
    with pytest.raises(UserError, match="Bilinear has no kernel"):
        contrast(u.float(), v.float(), impl="fused", **how)


def test_scoring_is_the_contrast_of_its_parts():
    u, v = points(5, 1), points(5, 2)
    scoring = Scoring(SPACE, 1.3, -2.0)
    parts = {"target": OneHot(), "form": Sigmoid(learned=True)}
    assert torch.equal(scoring.contrast(u, v, **parts), contrast(u, v, space=SPACE, log_scale=1.3, bias=-2.0, **parts))
    other = scoring.contrast(u, v, scorer=Bilinear(), **parts)
    assert torch.equal(other, contrast(u, v, space=Bilinear(), log_scale=1.3, bias=-2.0, **parts))


def test_another_scale_of_zero_is_one():
    scoring = Scoring(SPACE, 1.3, -2.0)
    assert scoring.without_bias() == replace(scoring, bias=None)
    assert scoring.without_bias(0.0) == Scoring(SPACE, 0.0)


def test_calling_an_objective_is_its_loss_of_a_scoring():
    embeddings, objective = Embeddings(points(5, 1), points(5, 2)), CLIP(form=Sigmoid(learned=True))
    called = objective(embeddings, log_scale=0.7, space=SPACE, bias=0.1)
    assert torch.equal(called.total, objective.loss(embeddings, None, Scoring(SPACE, 0.7, 0.1)).total)
