"""Weighted pairs: against a loop over rows and columns, in tiles as eagerly, and refused where there are none."""

from __future__ import annotations

import math

import pytest
import torch

from equipoise.config import load_run
from equipoise.kernels import contrast
from equipoise.objectives import CLIP
from equipoise.spaces import Sphere
from equipoise.targets import TARGETS
from equipoise.targets.weighted import PAIR_WEIGHT, WeightedPairs
from equipoise.types import Batch, Embeddings, UserError

COUNT, DIM, SCALE = 7, 5, 1.3


@pytest.fixture
def points() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(2, COUNT, DIM, generator=generator, dtype=torch.float64)
    return tuple(torch.nn.functional.normalize(drawn, dim=-1))  # type: ignore[return-value]


@pytest.fixture
def weights() -> torch.Tensor:
    return torch.tensor([1.0, 0.0, 0.5, 0.25, 0.9, 0.1, 0.7])


def batch_of(weights: torch.Tensor | None) -> Batch:
    nothing = torch.zeros(COUNT, 1)
    return Batch(
        nothing, nothing.long(), nothing.bool(), torch.arange(COUNT), {} if weights is None else {PAIR_WEIGHT: weights}
    )


def loss(points, weights, impl="eager", target="one_hot") -> torch.Tensor:
    objective = CLIP(target=TARGETS[target](), impl=impl)
    embeddings = Embeddings(image=points[0], text=points[1])
    return objective(embeddings, batch_of(weights), log_scale=SCALE, space=Sphere(dim=DIM)).total


def by_hand(points, weights) -> float:
    image, text = (one.tolist() for one in points)
    logits = [[math.exp(SCALE) * sum(a * b for a, b in zip(u, v, strict=True)) for v in text] for u in image]
    total, share = 0.0, weights.tolist()
    for i in range(COUNT):
        for line in (logits[i], [logits[j][i] for j in range(COUNT)]):
            total += share[i] * (math.log(sum(map(math.exp, line))) - logits[i][i])
    return total / 2 / sum(share)


def test_a_loop_over_rows_and_columns_gives_the_same(points, weights):
    assert float(loss(points, weights)) == pytest.approx(by_hand(points, weights), rel=1e-6)


@pytest.mark.parametrize("target", ["one_hot", "smoothed"])
@pytest.mark.parametrize("impl", ["eager", "tiled"])
def test_equal_weights_change_nothing(points, impl, target):
    equal = torch.full((COUNT,), 0.3)
    assert torch.allclose(loss(points, equal, impl, target), loss(points, None, impl, target))


@pytest.mark.parametrize("target", ["one_hot", "smoothed"])
def test_tiles_give_the_loss_and_the_gradients(points, weights, target):
    found = []
    for impl in ("eager", "tiled"):
        own = tuple(one.clone().requires_grad_() for one in points)
        total = contrast_of(own, weights, impl, target)
        found.append((total.detach(), *torch.autograd.grad(total, own)))
    for eager, tiled in zip(*found, strict=True):
        assert torch.allclose(eager, tiled, rtol=1e-9)


def contrast_of(points, weights, impl, target) -> torch.Tensor:
    objective = CLIP(target=TARGETS[target]())
    weighted = WeightedPairs(objective.target, weights.double())
    arguments = {"space": Sphere(dim=DIM), "form": objective.form, "log_scale": SCALE, "tile": 3}
    return contrast(*points, target=weighted, impl=impl, **arguments)


def test_a_pair_without_weight_is_a_negative_alone(points, weights):
    image = points[0].clone().requires_grad_()
    total = loss((image, points[1]), weights)
    assert torch.autograd.grad(total, image)[0][1].abs().sum() > 0


def test_one_weight_too_few(points):
    with pytest.raises(UserError, match="6 weights"):
        loss(points, torch.ones(COUNT - 1))


def test_a_guided_target_has_no_weights_yet(weights):
    guided = TARGETS["softened"]()
    assert not CLIP(target=guided).weighs_pairs
    with pytest.raises(UserError, match="guided"):
        WeightedPairs(guided, weights)


@pytest.mark.parametrize("recipe", ["softclip-scenes", "slip-scenes", "filip-scenes"])
def test_objectives_without_weights_refuse_them(recipe):
    with pytest.raises(UserError, match="objective clip"):
        load_run(recipe, ["keep.folder=x", "keep.rule=weights"])


def test_the_fused_engine_refuses_in_a_sentence(points, weights):
    with pytest.raises(UserError, match="WeightedPairs"):
        loss(tuple(one.float() for one in points), weights, impl="fused")
