"""The bound on the temperature holds, and lets the gradient back in."""

from __future__ import annotations

import math

import pytest
import torch

from equipoise.models.temperature import Temperature
from equipoise.types import UserError


def test_starts_where_clip_does():
    assert float(Temperature().parameter().detach().exp()) == pytest.approx(1 / 0.07)


def test_a_start_above_the_bound_is_bounded_but_not_frozen():
    temperature = Temperature(init=5.31)
    t = temperature.parameter()
    assert float(temperature.bounded(t).detach().exp()) == pytest.approx(100, rel=1e-5)
    (temperature.bounded(t) * 3.0).backward()
    assert float(t.grad) == 3.0  # a hard clamp would give 0 here, for ever


def test_it_comes_down_from_above_the_bound():
    temperature = Temperature(init=5.31)
    t = temperature.parameter()
    optimiser = torch.optim.SGD([t], lr=0.1)
    for _ in range(200):
        optimiser.zero_grad()
        (temperature.bounded(t) - math.log(56)).square().backward()
        optimiser.step()
        temperature.bring_back(t)
    assert float(t.detach().exp()) == pytest.approx(56, rel=1e-3)


def test_after_a_step_the_parameter_is_within_the_bound():
    temperature = Temperature(max_scale=6.25)
    t = torch.tensor(4.0)
    temperature.bring_back(t)
    assert float(t.exp()) == pytest.approx(6.25)
    assert temperature.at_bound(t)
    assert not temperature.at_bound(t - 0.1)


def test_a_fixed_temperature_has_no_gradient():
    assert not Temperature(learnable=False).parameter().requires_grad


def test_a_bound_of_zero_is_refused():
    with pytest.raises(UserError, match="max_scale must be positive"):
        Temperature(max_scale=0.0)
