"""Adapters against their formula: a start that changes nothing, and weights that hold them once they are merged."""

from __future__ import annotations

import pytest
import torch
from small_model import objective_named, random_batch, small_model, small_swin_model

from equipoise.models.lora import AdaptedLinear, Lora
from equipoise.training.settings import Training
from equipoise.training.step import Step
from equipoise.types import UserError

LORA = Lora(rank=3, alpha=6.0)


def stepped(model, settings=None, **training):
    (settings or LORA).put_into(model)
    given = Training(learning_rate=1e-2, warmup_steps=0, batch_size=12, trains="added", **training)
    step = Step(model.train(), objective_named("clip"), given, torch.device("cpu"))
    for number in (1, 2, 3):
        step(random_batch(12, number), number)
    return model


def points(model):
    model.eval()
    with torch.no_grad():
        return model(random_batch(12)).roles()


@pytest.mark.parametrize("make", [small_model, small_swin_model])
def test_at_the_start_nothing_is_changed(make):
    plain, adapted = make(), make()
    LORA.put_into(adapted)
    linears = [name for name, module in adapted.named_modules() if isinstance(module, AdaptedLinear)]
    assert len(linears) >= 4
    assert all(torch.equal(adapted.get_submodule(n).weight, plain.get_submodule(n).weight) for n in linears)
    for role, expected in points(plain).items():
        torch.testing.assert_close(points(adapted)[role], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("make", [small_model, small_swin_model])
def test_merged_is_the_same_model_under_the_old_names(make):
    adapted, plain = stepped(make()), make()
    state = LORA.merged(adapted.state_dict())
    assert list(state) == list(plain.state_dict())
    plain.load_state_dict(state)
    for role, expected in points(adapted).items():
        torch.testing.assert_close(points(plain)[role], expected, rtol=0, atol=1e-6)
        assert not torch.allclose(points(make())[role], expected, atol=1e-3)  # it has learned something


def test_the_weight_is_the_paper_read_aloud():
    adapted = stepped(small_model())
    name = "image_encoder.transformer.blocks.0.attention.qkv"
    linear, start = adapted.get_submodule(name), small_model().get_submodule(name).weight
    assert isinstance(linear, AdaptedLinear)
    up, down = linear.adapter.up, linear.adapter.down
    for row in range(start.shape[0]):
        for col in range(start.shape[1]):
            added = sum(float(up[row, k] * down[k, col]) for k in range(3))
            assert float(linear.weight[row, col]) == pytest.approx(float(start[row, col]) + 6.0 / 3 * added, abs=1e-12)


def test_only_adapters_and_the_temperature_moved():
    model, before = stepped(small_model()), small_model().state_dict()
    moved = {name for name, now in model.state_dict().items() if name in before and not torch.equal(before[name], now)}
    assert moved == {"logit_scale"}


def test_gradients_of_the_product_are_right():
    torch.manual_seed(0)
    linear = AdaptedLinear(torch.nn.Linear(4, 3).double(), rank=2, scale=0.7)
    x = torch.randn(5, 4).double()
    torch.nn.init.normal_(linear.adapter.up)

    def of(up, down):
        return torch.func.functional_call(linear, {"adapter.up": up, "adapter.down": down}, (x,))

    assert torch.autograd.gradcheck(of, (linear.adapter.up, linear.adapter.down))


def test_some_layers_by_the_end_of_their_names():
    model = small_model()
    Lora(rank=2, layers=("qkv",)).put_into(model)
    adapted = {name.rpartition(".")[2] for name, module in model.named_modules() if isinstance(module, AdaptedLinear)}
    assert adapted == {"qkv"}
    with pytest.raises(UserError, match="mlp_in, mlp_out, out, qkv"):
        Lora(rank=2, layers=("query",)).put_into(small_model())


def test_bad_settings_are_said():
    with pytest.raises(UserError, match="rank must be at least 0, not -1"):
        Lora(rank=-1)
    with pytest.raises(UserError, match="alpha must be positive, not 0"):
        Lora(rank=1, alpha=0)


def test_weights_without_adapters_stay_as_they_are():
    state = small_model().state_dict()
    assert all(torch.equal(state[name], tensor) for name, tensor in Lora(rank=4).merged(state).items())
