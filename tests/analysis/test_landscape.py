"""Directions as Li et al. scale them, the loss where the weights are, and a model left as it was found."""

from __future__ import annotations

import math
from copy import deepcopy

import pytest
import torch
from torch.nn.utils import parameters_to_vector

from equipoise.analysis.landscape import cosine, gradient_norms, left_as_found, loss_surface, random_direction
from equipoise.objectives import CLIP

PLACES = (-0.5, 0.0, 0.5)
SCALES = (1.0, 300.0)  # beyond the model's own bound


@pytest.fixture
def exact(model):
    """The tiny model, in numbers that hide no mistake."""
    return model.double()


@pytest.fixture
def batch(batches):
    return batches.batch(0).map(lambda tensor: (tensor.double() if tensor.is_floating_point() else tensor)[:6])


def loss_at(exact, batch, scale):
    return CLIP()(exact(batch), log_scale=math.log(scale), space=exact.space).total


def test_every_filter_of_a_direction_is_as_long_as_the_models(exact):
    direction = random_direction(exact, 0, "δ")
    for name, weight in exact.named_parameters():
        if weight.ndim < 2:
            assert name not in direction
            continue
        for own, moved in zip(weight, direction[name], strict=True):
            assert float(moved.norm()) == pytest.approx(float(own.detach().norm()), rel=1e-9)


def test_directions_follow_the_seed_and_are_nearly_at_right_angles(exact):
    first, again, other = (random_direction(exact, 0, name) for name in ("δ", "δ", "η"))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert cosine(first, first) == pytest.approx(1)
    assert abs(cosine(first, other)) < 0.1
    assert not torch.equal(
        first["image_readout.projection"], random_direction(exact, 1, "δ")["image_readout.projection"]
    )


def test_surface_is_the_loss_of_the_moved_model(exact, batch):
    directions = random_direction(exact, 0, "δ"), random_direction(exact, 0, "η")
    losses = loss_surface(exact, batch, directions, PLACES, SCALES)
    assert losses.shape == (2, 3, 3)
    moved = deepcopy(exact)
    with torch.no_grad():
        for name, weight in moved.named_parameters():
            if name in directions[0]:
                weight.add_(0.5 * directions[0][name] - 0.5 * directions[1][name])
        for number, scale in enumerate(SCALES):
            assert float(losses[number, 2, 0]) == pytest.approx(float(loss_at(moved, batch, scale)), rel=1e-10)
            assert float(losses[number, 1, 1]) == pytest.approx(float(loss_at(exact, batch, scale)), rel=1e-12)


def test_gradient_norm_is_that_of_backward(exact, batch):
    norms = gradient_norms(exact, batch, random_direction(exact, 0, "δ"), PLACES, SCALES)
    for number, scale in enumerate(SCALES):
        exact.zero_grad()
        loss_at(exact, batch, scale).backward()
        expected = math.sqrt(sum(float(p.grad.square().sum()) for p in exact.parameters() if p.grad is not None))
        assert float(norms[number, 1]) == pytest.approx(expected, rel=1e-10)


def test_the_model_is_left_as_it_was_found(exact, batch):
    exact.train()
    exact.logit_scale.grad = torch.tensor(3.0).double()
    before = parameters_to_vector(exact.parameters()).clone()
    direction = random_direction(exact, 0, "δ")
    loss_surface(exact, batch, (direction, direction), PLACES, SCALES)
    gradient_norms(exact, batch, direction, PLACES, SCALES)
    assert torch.equal(parameters_to_vector(exact.parameters()), before)
    assert exact.training
    assert float(exact.logit_scale.grad) == 3.0
    assert exact.image_readout.projection.grad is None


def test_the_model_comes_back_when_something_goes_wrong(exact, batch):
    before = parameters_to_vector(exact.parameters()).clone()
    direction = random_direction(exact, 0, "δ")

    def stop(done):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        loss_surface(exact, batch, (direction, direction), PLACES, SCALES, stop)
    assert torch.equal(parameters_to_vector(exact.parameters()), before)
    with pytest.raises(RuntimeError), left_as_found(exact):
        raise RuntimeError
    assert exact.training
