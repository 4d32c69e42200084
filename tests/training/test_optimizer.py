"""Decay groups and the schedule."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from small_model import random_batch, small_model

from equipoise.encoders import ViT
from equipoise.models.logit_scale import LogitScale
from equipoise.objectives import CLIP
from equipoise.training.ema import EMA
from equipoise.training.optimizer import is_decayed, learning_rate, make_optimizer
from equipoise.training.settings import Training
from equipoise.training.step import Step
from equipoise.types import UserError


def test_decay_touches_maps_only():
    vit = ViT.Config(patch=8, width=32, layers=1, heads=2).build(32)
    decayed = {name for name, p in vit.named_parameters() if is_decayed(name, p)}
    assert decayed == {
        "patches.weight",
        "transformer.blocks.0.attention.qkv.weight",
        "transformer.blocks.0.attention.out.weight",
        "transformer.blocks.0.mlp_in.weight",
        "transformer.blocks.0.mlp_out.weight",
    }
    groups = make_optimizer(vit, Training(weight_decay=0.3)).param_groups
    assert [g["weight_decay"] for g in groups] == [0.3, 0.0]
    assert sum(len(g["params"]) for g in groups) == len(list(vit.parameters()))


def test_the_temperature_is_not_decayed_and_learns_at_its_own_speed():
    for settings, moved in ((LogitScale(), 0.01), (LogitScale(speed=20.0), 0.2)):
        model = small_model(temperature=settings).train()
        before = model.logit_scale.item()
        step = Step(model, CLIP(), Training(learning_rate=0.01, warmup_steps=0), torch.device("cpu"))
        group = next(g for g in step.optimizer.param_groups if any(p is model.logit_scale for p in g["params"]))
        assert group["weight_decay"] == 0
        step(random_batch(12), 1)
        assert abs(model.logit_scale.item() - before) == pytest.approx(moved, rel=1e-3)  # Adam's first step is its rate


@pytest.mark.slow
def test_a_start_above_the_bound_comes_down_to_its_equilibrium_in_training():
    """exp(5.31) = 202 under a bound of 100, pairs that never match: a hard clamp would leave it there for ever."""
    model = small_model(temperature=LogitScale(init=5.31, speed=10.0)).train()
    step = Step(model, CLIP(), Training(steps=200, learning_rate=5e-3, warmup_steps=0), torch.device("cpu"))
    scales = []
    for number in range(1, 81):
        batch = random_batch(24, number)  # new noise every time: nothing to learn but to be less sure
        step(batch, number)
        scales.append(float(model.log_scale.detach().exp()))
    assert scales[0] == pytest.approx(100, rel=0.2)
    assert max(scales) <= 100.001
    assert scales[-1] < 50


def test_schedule_warms_up_then_follows_a_cosine():
    settings = Training(steps=110, warmup_steps=10, learning_rate=2.0, final_learning_rate=0.2)
    rates = [learning_rate(k, settings) for k in range(110)]
    assert rates[:10] == pytest.approx([0.2 * (k + 1) for k in range(10)])
    assert rates[10] == pytest.approx(2.0)
    assert rates[60] == pytest.approx(1.1)
    assert rates[109] == pytest.approx(0.2 + 0.9 * (1 + math.cos(math.pi * 0.99)))
    assert all(a >= b for a, b in itertools.pairwise(rates[9:]))


@pytest.mark.parametrize("warmup", [0, 5, 50])
def test_short_runs_have_a_schedule_too(warmup):
    settings = Training(steps=5, warmup_steps=warmup)
    assert all(0 < learning_rate(k, settings) <= settings.learning_rate for k in range(5))


def test_average_equals_the_recurrence():
    model = torch.nn.Linear(2, 1)
    average = EMA(model, decay=0.9)
    expected = model.weight.detach().clone()
    for step in range(1, 30):
        with torch.no_grad():
            model.weight.add_(step)
        average.update(model, step)
        decay = min(0.9, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * model.weight.detach()
    torch.testing.assert_close(average.weights["weight"], expected)
    own = model.weight.detach().clone()
    with average.applied_to(model):
        torch.testing.assert_close(model.weight.detach(), expected)
    torch.testing.assert_close(model.weight.detach(), own)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"batch_size": 1}, "batch_size 1 leaves nothing to contrast with"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"precision": "fp8"}, "precision must be one of"),
        ({"ema": 1.0}, "ema must be in"),
    ],
)
def test_settings_that_make_no_sense_are_refused(change, sentence):
    with pytest.raises(UserError, match=sentence):
        Training(**change)


def test_a_device_that_is_not_there_is_refused():
    with pytest.raises(UserError, match="not one torch knows"):
        Training(device="abacus").torch_device()
    if not torch.cuda.is_available():
        with pytest.raises(UserError, match="torch sees no GPU"):
            Training(device="cuda").torch_device()
        with pytest.raises(UserError, match="needs a GPU with bf16 units"):
            Training(precision="bf16").autocast(torch.device("cpu"))
