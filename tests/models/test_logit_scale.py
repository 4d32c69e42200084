"""The bound on the temperature holds, and lets the gradient back in."""

from __future__ import annotations

import math

import pytest
import torch

from equipoise.models.logit_scale import LogitScale
from equipoise.spaces import ProductSphere, Sphere
from equipoise.types import UserError


def test_starts_where_clip_does():
    assert float(LogitScale().parameter().detach().exp()) == pytest.approx(1 / 0.07)


def test_a_start_above_the_bound_is_bounded_but_not_frozen():
    temperature = LogitScale(init=5.31)
    t = temperature.parameter()
    assert float(temperature.bounded(t).detach().exp()) == pytest.approx(100, rel=1e-5)
    (temperature.bounded(t) * 3.0).backward()
    assert float(t.grad) == 3.0  # a hard clamp would give 0 here, for ever


def test_it_comes_down_from_above_the_bound():
    temperature = LogitScale(init=5.31)
    t = temperature.parameter()
    optimizer = torch.optim.SGD([t], lr=0.1)
    for _ in range(200):
        optimizer.zero_grad()
        (temperature.bounded(t) - math.log(56)).square().backward()
        optimizer.step()
        temperature.clamp_(t)
    assert float(t.detach().exp()) == pytest.approx(56, rel=1e-3)


def test_after_a_step_the_parameter_is_within_the_bound():
    temperature = LogitScale(max_scale=6.25)
    t = torch.tensor(4.0)
    temperature.clamp_(t)
    assert float(t.exp()) == pytest.approx(6.25)
    assert temperature.at_bound(t)
    assert not temperature.at_bound(t - 0.1)


def test_a_fixed_temperature_has_no_gradient():
    assert not LogitScale(learnable=False).parameter().requires_grad


def test_the_bound_may_be_shared_by_the_spheres_of_a_product():
    shared = LogitScale(per_sphere=True)
    assert shared.within(ProductSphere(32, 16)).max_scale == 6.25
    assert shared.within(ProductSphere(32, 16, distance="geodesic")).max_scale == 6.25
    assert shared.within(Sphere(512)).max_scale == 100
    assert LogitScale().within(ProductSphere(32, 16)).max_scale == 100
    assert "sun2024temperature" in shared.cites


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"max_scale": 0.0}, "max_scale must be positive, not 0.0"),
        ({"speed": -1.0}, "speed must be positive, not -1.0"),
        ({"init": math.inf}, "init is inf; give t, the logarithm"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, sentence):
    with pytest.raises(UserError, match=sentence):
        LogitScale(**settings)
