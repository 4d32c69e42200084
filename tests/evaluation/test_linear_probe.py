"""The linear probe against scikit-learn itself, cases with a known answer, and real features where they are."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from equipoise.data.rng import generator
from equipoise.evaluation.linear_probe import Labelled, measured, probe_lbfgs, search
from equipoise.evaluation.sgd_probe import MOCO_V3, SGD, probe_sgd, probe_sgd_sweep, rate
from equipoise.types import UserError

sklearn = pytest.importorskip("sklearn.linear_model", reason="scikit-learn is not installed: L-BFGS is NOT tested")
REAL = Path(os.environ.get("EQUIPOISE_TEST_DATA", Path(__file__).parents[3] / "shared" / "data"))


def clouds(count: int, seed: int, classes: int = 3, spread: float = 1.0) -> Labelled:
    """Points around one centre a class."""
    centres = torch.randn(4, 6, generator=torch.Generator().manual_seed(99))[:classes]
    chance = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % classes
    return Labelled(centres[labels] + spread * torch.randn(count, 6, generator=chance), labels)


def test_lbfgs_is_scikit_learn_with_the_chosen_penalty():
    train, validation, test = clouds(60, 1), clouds(30, 2), clouds(90, 3)
    found = probe_lbfgs(train, validation, test)
    x, y = (torch.cat(parts).double().numpy() for parts in zip(train, validation, strict=True))
    peer = sklearn.LogisticRegression(C=found.chosen, max_iter=1000).fit(x, y)
    assert found.metrics["lp_acc1"] == peer.score(test.features.double().numpy(), test.classes.numpy())
    for c, accuracy in found.sweep:
        fitted = sklearn.LogisticRegression(C=c, max_iter=1000).fit(train.features.double().numpy(), train.classes)
        assert accuracy == fitted.score(validation.features.double().numpy(), validation.classes.numpy())
    assert max(accuracy for _, accuracy in found.sweep) == dict(found.sweep)[found.chosen]


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("sgd", [False, True])
def test_classes_far_apart_are_told_apart(classes, sgd):
    train, validation, test = (clouds(30, seed, classes, spread=0.01) for seed in (1, 2, 3))
    found = probe_sgd(train, test) if sgd else probe_lbfgs(train, validation, test)
    assert found.metrics == {"lp_acc1": 1.0, "lp_mean_per_class_recall": 1.0}


@pytest.mark.parametrize("peak", [-6.0, -3.125, 0.0, 2.375, 6.0])
def test_the_search_finds_the_best_to_an_eighth_of_a_decade(peak):
    tried = search(lambda exponent: -abs(exponent - peak))
    assert max(tried, key=tried.__getitem__) == peak
    assert len(tried) <= 7 + 2 * 4
    assert {-6.0, -4.0, -2.0, 0.0, 2.0, 4.0, 6.0} <= set(tried)


def test_equal_scores_choose_the_strongest_penalty():
    assert min(search(lambda _: 0.5)) == -6.0
    apart = [clouds(30, seed, spread=0.0) for seed in (1, 2, 3)]
    found = probe_lbfgs(*apart)
    assert found.chosen == min(c for c, accuracy in found.sweep if accuracy == 1.0)


def test_sgd_equals_its_recipe_by_hand():
    """Softmax regression with the gradient written out, on whole batches."""
    train, settings = clouds(12, 4), SGD(epochs=7, warmup_epochs=2)
    weight = torch.empty(3, 6)
    torch.nn.init.normal_(weight, std=0.01, generator=generator(0, "probe"))
    w, b = weight.double().numpy(), np.zeros(3)
    x, y = train.features.double().numpy(), np.eye(3)[train.classes.numpy()]
    for epoch in range(7):
        logits = x @ w.T + b
        p = np.exp(logits - logits.max(1, keepdims=True))
        error = (p / p.sum(1, keepdims=True) - y) / len(x)
        step = epoch / 2 if epoch < 2 else 0.5 * (1 + math.cos(math.pi * (epoch - 2) / 5))
        w, b = w - step * error.T @ x, b - step * error.sum(0)
    test = clouds(300, 5, spread=2.0)
    expected = (test.features.double().numpy() @ w.T + b).argmax(1)
    found = probe_sgd(train, test, settings)
    assert found.metrics["lp_acc1"] == pytest.approx((expected == test.classes.numpy()).mean())
    assert 0.4 < found.metrics["lp_acc1"] < 0.99


def test_mocos_sweep_chooses_on_validation_data_and_trains_anew_with_them():
    train, validation, test = clouds(60, 1, spread=2.0), clouds(45, 2, spread=2.0), clouds(300, 3, spread=2.0)
    rates = (1e-4, 0.1, 3.0)
    found = probe_sgd_sweep(train, validation, test, rates=rates)

    def by_hand(known: Labelled, asked: Labelled, base: float) -> float:
        """Momentum, rate and cosine written out, on whole batches."""
        weight = torch.empty(3, 6)
        torch.nn.init.normal_(weight, std=0.01, generator=generator(0, "probe"))
        w = np.hstack([weight.double().numpy(), np.zeros((3, 1))])
        x, y = np.hstack([known.features.double().numpy(), np.ones((len(known.classes), 1))]), np.eye(3)[known.classes]
        speed = np.zeros_like(w)
        for epoch in range(90):
            logits = x @ w.T
            p = np.exp(logits - logits.max(1, keepdims=True))
            speed = 0.9 * speed + ((p / p.sum(1, keepdims=True) - y) / len(x)).T @ x
            w = w - base * len(x) / 256 * 0.5 * (1 + math.cos(math.pi * epoch / 90)) * speed
        x = np.hstack([asked.features.double().numpy(), np.ones((len(asked.classes), 1))])
        return float(((x @ w.T).argmax(1) == asked.classes.numpy()).mean())

    expected = {base: by_hand(train, validation, base) for base in rates}
    assert dict(found.sweep) == pytest.approx(expected)
    assert len(set(expected.values())) > 1
    assert found.chosen == max(rates, key=lambda base: (expected[base], -base))
    both = Labelled(*(torch.cat(parts) for parts in zip(train, validation, strict=True)))
    assert found.metrics["lp_acc1"] == pytest.approx(by_hand(both, test, found.chosen))


def test_a_rate_that_diverges_is_not_chosen_and_never_a_number():
    large = [Labelled(1e30 * part.features, part.classes) for part in (clouds(30, 1), clouds(30, 2), clouds(30, 3))]
    assert dict(probe_sgd_sweep(*large, rates=(1e-38, 1e9)).sweep)[1e9] == 0
    with pytest.raises(UserError, match="diverged"):
        probe_sgd(large[0], large[2], SGD(learning_rate=1e9))


def test_rate_rises_and_falls():
    assert [rate(epoch, MOCO_V3) for epoch in (0, 45, 89.999)] == pytest.approx([1, 0.5, 0], abs=1e-6)
    settings = SGD()
    assert [rate(epoch, settings) for epoch in (0, 2.5, 5, 52.5)] == pytest.approx([0, 0.5, 1, 0.5])
    assert rate(99.99, settings) < 1e-4


def test_accuracies_are_counted():
    scores = torch.tensor([[3.0, 1, 2], [1, 3, 2], [3, 1, 2], [3, 2, 1]])
    found = measured(scores, torch.tensor([0, 0, 0, 1]))
    assert found == {"lp_acc1": 0.5, "lp_mean_per_class_recall": pytest.approx((2 / 3 + 0) / 2)}
    assert measured(torch.eye(6), torch.tensor([0, 1, 2, 3, 4, 5]))["lp_acc5"] == 1.0


def test_a_class_that_was_never_trained_is_missed_not_an_error():
    train, validation = clouds(20, 1, classes=2, spread=0.01), clouds(20, 2, classes=2, spread=0.01)
    test = clouds(30, 3, classes=3, spread=0.01)
    for found in (probe_lbfgs(train, validation, test), probe_sgd(train, test)):
        assert found.metrics["lp_acc1"] == pytest.approx(2 / 3)


def test_nonsense_is_refused():
    good, one = clouds(12, 1), Labelled(torch.randn(4, 6), torch.zeros(4, dtype=torch.long))
    with pytest.raises(UserError, match="all training records are of one class"):
        probe_lbfgs(one, good, good)
    with pytest.raises(UserError, match="all training records are of one class"):
        probe_sgd(one, good)
    empty = Labelled(torch.empty(0, 6), torch.empty(0, dtype=torch.long))
    with pytest.raises(UserError, match="needs labelled records"):
        probe_lbfgs(good, empty, good)
    broken = Labelled(torch.full((12, 6), torch.nan), good.classes)
    with pytest.raises(UserError, match="not finite"):
        probe_sgd(broken, good)


@pytest.mark.skipif(not REAL.is_dir(), reason=f"{REAL} is absent: the probe is NOT tested on real features of CIFAR-10")
def test_real_features_of_cifar10_are_told_apart():
    with np.load(REAL / "features_effnetlite0_minilm" / "cifar10_test2k.npz") as file:
        names = {name: file[name].shape for name in file.files}
        features, classes = torch.from_numpy(file["image"]).float(), torch.from_numpy(file["label"]).long()
    assert len(features) == len(classes) == 2000, names
    order = torch.randperm(2000, generator=torch.Generator().manual_seed(0))
    parts = [Labelled(features[some], classes[some]) for some in order.split([800, 200, 1000])]
    found = probe_sgd(Labelled(features[order[:1000]], classes[order[:1000]]), parts[2])
    assert 0.6 < found.metrics["lp_acc1"] < 0.95
