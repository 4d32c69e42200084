"""The bound on the temperature holds, and lets the gradient back in."""

from __future__ import annotations

import math

import pytest
import torch

from equipoise.config import load_run
from equipoise.models.logit_scale import LogitScale, unit_free
from equipoise.spaces import Euclidean, ProductSphere, Sphere
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
    assert shared.within(ProductSphere(32, 16, distance="geodesic")).max_scale == 25  # √16: so far distances reach
    assert shared.within(Sphere(512)).max_scale == 100
    assert LogitScale().within(ProductSphere(32, 16)).max_scale == 100
    assert "sun2024temperature" in shared.cites


MATCHED = (
    Sphere(48),
    ProductSphere(6, 8),
    pytest.param(ProductSphere(6, 8, distance="geodesic"), marks=pytest.mark.slow),
    ProductSphere(2, 24),
)


@pytest.mark.parametrize("space", MATCHED, ids=str)
def test_a_matched_start_spreads_logits_as_clip_does_on_the_sphere(space):
    """Logits of random points, drawn: as wide as on the sphere of the same dimension at CLIP's start."""
    start = LogitScale(init="matched").within(space)
    draws = [space.sample(40_000, torch.Generator().manual_seed(seed)) for seed in (1, 2)]
    logits = math.exp(start.start) * space.pairwise(*draws)
    assert float(logits.std()) == pytest.approx(1 / 0.07 / math.sqrt(48), rel=0.02)
    assert unit_free(start.start, space) == pytest.approx(math.log(1 / 0.07 / math.sqrt(48)))
    assert float(start.parameter().detach()) == pytest.approx(start.start)


def test_matched_is_clips_start_on_the_sphere_and_100_over_m_lower_on_a_product():
    matched = LogitScale(init="matched")
    assert matched.within(Sphere(512)).start == pytest.approx(LogitScale().start)
    assert matched.within(ProductSphere(64, 8)).start == pytest.approx(LogitScale().start - math.log(8))
    wide = matched.within(Euclidean(48)).start
    points = torch.randn(2, 40_000, 48, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    spread = float((math.exp(wide) * (points[0] - points[1]).norm(dim=1)).std())
    assert spread == pytest.approx(1 / 0.07 / math.sqrt(48), rel=0.02)
    assert unit_free(1.0, Euclidean(48)) is None


def test_a_start_that_cannot_be_matched_is_refused_before_anything_is_made():
    with pytest.raises(UserError, match=r"init is matched.*TokenSets"):
        load_run("filip-scenes", ["temperature.init=matched"])
    with pytest.raises(UserError, match='must be a number or "matched"'):
        load_run("demo", ["temperature.init=mached"])
    with pytest.raises(UserError, match="depends on the space"):
        LogitScale(init="matched").parameter()
    run = load_run("scenes-ps-64x8", ["temperature.init=matched"])
    assert run.table["temperature"]["init"] == "matched"


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
