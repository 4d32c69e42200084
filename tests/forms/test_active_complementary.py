"""CRCL's loss against its formula, read aloud in float64: labels of 0, 1 and between, eager and in tiles."""

from __future__ import annotations

import math

import pytest
import torch

import equipoise as eq
from equipoise.data.keep.weights import PAIR_WEIGHT
from equipoise.forms import ActiveComplementary
from equipoise.objectives import CRCL
from equipoise.targets import OneHot, Smoothed
from equipoise.targets.pair_labels import PairLabels
from equipoise.types import Batch, Embeddings, UserError

SPACE, COUNT, T = eq.Sphere(8), 7, 1.3
LABELS = torch.tensor([1.0, 0.0, 0.4, 1.0, 0.9, 0.1, 0.0], dtype=torch.float64)


def points() -> list[torch.Tensor]:
    make = torch.Generator().manual_seed(2)
    return [SPACE.project(torch.randn(COUNT, 8, generator=make, dtype=torch.float64)) for _ in range(2)]


def aloud(u: torch.Tensor, v: torch.Tensor, y: torch.Tensor, weight: float = 5.0) -> float:
    logits = math.exp(T) * u @ v.T
    total = 0.0
    for q in (logits.softmax(1), logits.T.softmax(1)):
        for i in range(COUNT):
            tangents = [math.tan(float(q[i, j])) for j in range(COUNT)]
            negatives = sum(tangents[j] for j in range(COUNT) if j != i)
            total -= float(y[i]) * math.log(float(q[i, i]))
            total += weight * negatives / sum(tangents) ** (1 - float(y[i]))
    return total / COUNT / 2


def loss(u, v, target, impl="eager", weight=5.0):
    form = ActiveComplementary(weight)
    return eq.contrast(u, v, space=SPACE, target=target, form=form, log_scale=T, impl=impl, tile=3)


@pytest.mark.parametrize("impl", ["eager", "tiled"])
@pytest.mark.parametrize("weight", [5.0, 0.5])
def test_it_equals_the_paper_read_aloud(impl, weight):
    u, v = points()
    found = float(loss(u, v, PairLabels(OneHot(), LABELS), impl, weight))
    assert found == pytest.approx(aloud(u, v, LABELS, weight), abs=1e-12)


def test_without_labels_every_pair_is_trusted():
    u, v = points()
    assert float(loss(u, v, OneHot())) == pytest.approx(aloud(u, v, torch.ones(COUNT)), abs=1e-12)


@pytest.mark.parametrize("impl", ["eager", "tiled"])
def test_the_gradient_is_that_of_finite_differences(impl):
    u, v = points()
    u.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: loss(x, v, PairLabels(OneHot(), LABELS), impl), u)


def test_the_objective_takes_the_weights_of_pairs_as_labels():
    u, v = points()
    index = torch.arange(COUNT)
    batch = Batch(index, index, index, index, {PAIR_WEIGHT: LABELS})
    found = CRCL()(Embeddings(u, v), batch, log_scale=T, space=SPACE).total
    assert float(found) == pytest.approx(aloud(u, v, LABELS), abs=1e-12)
    bare = CRCL(weight=1.0)(Embeddings(u, v), None, log_scale=T, space=SPACE).total
    assert float(bare) == pytest.approx(aloud(u, v, torch.ones(COUNT), 1.0), abs=1e-12)


def test_what_makes_no_sense_is_a_sentence():
    u, v = points()
    with pytest.raises(UserError, match="choose one_hot"):
        loss(u, v, Smoothed())
    with pytest.raises(UserError, match="5 labels"):
        loss(u, v, PairLabels(OneHot(), LABELS[:5]))
    with pytest.raises(UserError, match="weight must be at least 0"):
        CRCL(weight=-1.0)
