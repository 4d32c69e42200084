"""A model that takes its weights from a file draws none."""

import importlib
import math
from pathlib import Path

import pytest
import torch
from torch import nn

from equipoise.config import Loaded, dump
from equipoise.models.folder import save_model
from equipoise.models.model import Model
from equipoise.models.undrawn import DRAWS, Undrawn
from equipoise.workflows import load

INITS = [
    nn.init.normal_,
    nn.init.uniform_,
    nn.init.trunc_normal_,
    nn.init.kaiming_uniform_,
    nn.init.kaiming_normal_,
    nn.init.xavier_uniform_,
    nn.init.xavier_normal_,
]


@pytest.mark.parametrize("draw", INITS, ids=lambda one: one.__name__)
def test_nothing_is_drawn_inside(draw):
    before = torch.get_rng_state()
    with Undrawn():
        draw(torch.ones(3, 4))
    assert torch.equal(torch.get_rng_state(), before)
    draw(torch.ones(3, 4))
    assert not torch.equal(torch.get_rng_state(), before)


def test_what_is_not_drawn_is_as_ever():
    with Undrawn():
        norm = nn.LayerNorm(4)
        zeros = nn.init.zeros_(torch.ones(3))
    assert norm.weight.tolist() == [1.0] * 4
    assert zeros.tolist() == [0.0] * 3


def test_transformers_draws_nothing_inside(transformers):
    config = transformers.BertConfig(
        vocab_size=30, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
    )
    before = torch.get_rng_state()
    with Undrawn():
        transformers.AutoModel.from_config(config)
    assert torch.equal(torch.get_rng_state(), before)
    transformers.AutoModel.from_config(config)
    assert not torch.equal(torch.get_rng_state(), before)


def test_a_folder_is_built_without_drawing(model: Model, tiny: Loaded, tmp_path: Path, monkeypatch):
    """It has the numbers of its file, whatever lay in the memory before."""
    save_model(model, tmp_path / "model", dump(tiny.table), {})
    left = []

    class Spoiled(Undrawn):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            found = super().__torch_function__(func, types, args, kwargs)
            if func.__name__ in DRAWS:
                left.append(found.detach().fill_(math.nan))
            return found

    monkeypatch.setattr(importlib.import_module("equipoise.workflows.load"), "Undrawn", Spoiled)
    loaded = load(tmp_path / "model").state_dict()
    assert left
    assert all(torch.equal(loaded[name], tensor) for name, tensor in model.state_dict().items())
