"""App. B's count beside torch's, and the paper's own figure."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from equipoise.analysis.cost import Stack, TowerCost, costs, count_activations, count_macs, estimated_macs, tower
from equipoise.encoders import ViT
from equipoise.encoders.precomputed import PrecomputedImage
from equipoise.encoders.transformer import Transformer
from equipoise.types import UserError


@pytest.mark.parametrize(("tokens", "layers", "width"), [(1, 1, 16), (17, 2, 64), (40, 3, 32)])
def test_the_estimate_is_what_torch_counts(tokens, layers, width):
    blocks = Stack(Transformer(width, layers, heads=2))
    assert count_macs(blocks, torch.randn(1, tokens, width)) == estimated_macs(tokens, layers, width)


def test_sixteen_tokens_cost_a_vit_b16_less_than_eight_percent():
    """Sun and Li 2024, §4.2: "with less than 8% more computational costs"."""
    added = estimated_macs(196 + 16, 12, 768) / estimated_macs(196 + 1, 12, 768) - 1
    assert 0.075 < added < 0.08


def test_activations_are_what_autograd_keeps_once():
    x = torch.randn(3, 5)
    assert count_activations(nn.Linear(5, 7), x) == 15  # its input; its weights are not activations
    assert count_activations(nn.Sequential(nn.ReLU(), nn.Linear(5, 7)), x) == 15  # the ReLU's output is the map's input
    assert count_activations(nn.Sequential(nn.Linear(5, 7), nn.Sigmoid()), x) == 15 + 21


def test_a_tower_is_measured_with_further_class_tokens():
    one = TowerCost("image", Stack(Transformer(16, 1, heads=2)), tokens=5, layers=1, width=16)
    first, more = costs(one, (1, 4), batch=2)
    assert (first.tokens, more.tokens) == (5, 8)
    assert more.measured_macs == more.estimated_macs > first.measured_macs
    assert more.measured_activations > first.measured_activations > 0
    assert 0 < first.seconds_forward < 60
    assert 0 < first.seconds_training < 60
    with pytest.raises(UserError, match="at least 1 class token, not 0"):
        costs(one, (1, 0), batch=2)


def test_only_transformers_have_a_tower():
    vit = ViT.Config(patch=8, width=16, layers=2, heads=2).build(16)
    found = tower("image", vit, 5)
    assert (found.layers, found.width) == (2, 16)
    with pytest.raises(UserError, match=r"image encoder .PrecomputedImage."):
        tower("image", PrecomputedImage.Config(width=8).build(16), 5)
