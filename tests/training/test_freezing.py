"""Which parameters train: the others keep their values, their statistics, and cost the optimizer nothing."""

from __future__ import annotations

import pytest
import torch
from small_model import objective_named, random_batch, small_model, small_resnet_model
from torch import nn

from equipoise.models.model import Model
from equipoise.training.checkpoint.optimizer_state import optimizer_state
from equipoise.training.settings import Training
from equipoise.training.step import Step
from equipoise.types import UserError

MOVED = {
    "all": {"image_encoder", "image_readout", "text_encoder", "text_readout", "logit_scale"},
    "readouts": {"image_readout", "text_readout", "logit_scale"},
    "image": {"image_encoder", "image_readout", "logit_scale"},
    "text": {"text_encoder", "text_readout", "logit_scale"},
}


class Shifted(nn.Module):
    """A part that says it was added; it moves what a tower's readout gives."""

    added = True

    def __init__(self, readout: nn.Module):
        super().__init__()
        self.reads_tokens, self.reads_classes = readout.reads_tokens, readout.reads_classes
        self.__dict__["readout"] = readout  # it belongs to the model, not to this
        self.by = nn.Parameter(torch.zeros(16).double())

    def forward(self, features, shared=None):
        return self.__dict__["readout"](features, shared) + self.by


def stepped(model: Model, objective: str = "clip", **settings) -> Step:
    given = Training(learning_rate=1e-2, warmup_steps=0, batch_size=12, weight_decay=0.5, **settings)
    step = Step(model.train(), objective_named(objective), given, torch.device("cpu"))
    size = model.preprocess.size
    for number in (1, 2):
        step(random_batch(12, number, size), number)
    return step


def changed(before: dict[str, torch.Tensor], model: Model) -> set[str]:
    return {name.split(".")[0] for name, now in model.state_dict().items() if not torch.equal(before[name], now)}


@pytest.mark.parametrize("micro", [0, 4])
@pytest.mark.parametrize("trains", MOVED)
def test_what_is_named_moves_and_nothing_else(trains, micro):
    model = small_model()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    step = stepped(model, trains=trains, micro_batch=micro)
    assert changed(before, model) == MOVED[trains]
    held = {name.partition("/")[2].split(".")[0] for name in optimizer_state(step.model, step.optimizer)}
    assert held == MOVED[trains]


def test_heads_are_trainings_own_and_train_always():
    model = small_model(heads=objective_named("mixed").heads)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    stepped(model, "mixed", trains="readouts")
    assert changed(before, model) == MOVED["readouts"] | {"heads"}


def test_added_parts_train_alone():
    model = small_model()
    model.text_readout = Shifted(model.text_readout)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    stepped(model, trains="added")
    moved = {name for name, now in model.state_dict().items() if not torch.equal(before[name], now)}
    assert moved == {"text_readout.by", "logit_scale"}


def test_nothing_added_is_said():
    with pytest.raises(UserError, match='is "added", but the model has no such parameters'):
        stepped(small_model(), trains="added")


def test_an_unknown_part_is_said():
    with pytest.raises(UserError, match="trains must be one of all, readouts, image, text, added, not 'towers'"):
        Training(trains="towers")


@pytest.mark.parametrize("settings", [{"trains": "text"}, {"trains": "readouts"}, {"keep_statistics": True}])
def test_statistics_of_what_is_frozen_stay_also_after_an_evaluation(settings):
    model = small_resnet_model()
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    step = stepped(model, **settings)
    model.eval()
    model.train()  # as an evaluation between steps does
    step(random_batch(12, 3, 32), 3)
    assert before
    assert [name for name, now in model.named_buffers() if not torch.equal(before[name], now)] == []


def test_statistics_of_what_trains_go_on():
    model = small_resnet_model()
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    stepped(model, trains="image")
    assert any(not torch.equal(before[name], now) for name, now in model.named_buffers())
