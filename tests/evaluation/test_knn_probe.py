"""k nearest neighbours against scikit-learn's, a loop in Python, and tiles against the whole."""

from __future__ import annotations

import math

import pytest
import torch

import equipoise.evaluation.knn_probe as module
from equipoise.evaluation.knn_probe import knn_accuracies, knn_chance, probe_knn
from equipoise.evaluation.linear_probe import Labelled
from equipoise.types import UserError


def clouds(count: int, seed: int, classes: int = 6, spread: float = 1.0) -> Labelled:
    centres = torch.randn(classes, 5, generator=torch.Generator().manual_seed(7))
    labels = torch.arange(count) % classes
    noise = torch.randn(count, 5, generator=torch.Generator().manual_seed(seed))
    return Labelled(centres[labels] + spread * noise, labels)


def looped(train: Labelled, test: Labelled, k: int, classes: int) -> tuple[float, float]:
    """acc1 and acc5, a query at a time, in float64."""
    first = five = 0
    for x, truth in zip(test.features.double(), test.classes.tolist(), strict=True):
        cosines = [
            (float(torch.nn.functional.cosine_similarity(x, z.double(), dim=0)), label)
            for z, label in zip(train.features, train.classes.tolist(), strict=True)
        ]
        votes = [0.0] * classes
        for cosine, label in sorted(cosines, reverse=True)[:k]:
            votes[label] += math.exp(cosine / 0.07)
        place = sum(vote >= votes[truth] for vote in votes)
        first, five = first + (place == 1), five + (place <= 5)
    return first / len(test.classes), five / len(test.classes)


@pytest.mark.parametrize("tile", [4, 8192])
@pytest.mark.parametrize("k", [1, 3, 30])
def test_votes_are_those_of_a_loop_whatever_the_tile(k, tile, monkeypatch):
    monkeypatch.setattr(module, "TILE", tile)
    monkeypatch.setattr(module, "QUERIES", 7)
    train, test = clouds(30, 1), clouds(40, 2)
    found = knn_accuracies(train, test, k, 6)
    assert (found["knn_acc1"], found["knn_acc5"]) == pytest.approx(looped(train, test, k, 6))
    assert 0.2 < found["knn_acc1"] < 1


def test_votes_are_scikit_learns():
    neighbors = pytest.importorskip("sklearn.neighbors", reason="scikit-learn is not installed: k-NN has no peer here")
    import numpy as np

    train, test = clouds(90, 1), clouds(60, 2)
    peer = neighbors.KNeighborsClassifier(7, metric="cosine", weights=lambda far: np.exp((1 - far) / 0.07))
    peer.fit(train.features.double().numpy(), train.classes.numpy())
    expected = peer.score(test.features.double().numpy(), test.classes.numpy())
    assert knn_accuracies(train, test, 7, 6)["knn_acc1"] == pytest.approx(expected)


def test_validation_data_choose_and_then_vote_too():
    train, validation, test = clouds(60, 1), clouds(60, 2), clouds(60, 3)
    found = probe_knn(train, validation, test, neighbours=(1, 5, 500))
    assert [k for k, _ in found.sweep] == [1, 5, 60]  # no more than there are
    for k, accuracy in found.sweep:
        assert accuracy == pytest.approx(looped(train, validation, k, 6)[0])
    both = Labelled(*(torch.cat(parts) for parts in zip(train, validation, strict=True)))
    assert found.metrics["knn_acc1"] == pytest.approx(looped(both, test, found.chosen, 6)[0])


def test_ties_are_misses():
    train = Labelled(torch.ones(4, 3), torch.tensor([0, 0, 1, 1]))
    test = Labelled(torch.ones(2, 3), torch.tensor([0, 1]))
    assert knn_accuracies(train, test, 4, 2)["knn_acc1"] == 0
    assert knn_chance(2) == {"knn_acc1": 0.5, "knn_mean_per_class_recall": 0.5}


def test_a_class_without_training_pictures_is_missed():
    train, test = clouds(20, 1, classes=2, spread=0.01), clouds(30, 3, classes=3, spread=0.01)
    assert knn_accuracies(train, test, 3, 3)["knn_mean_per_class_recall"] == pytest.approx(2 / 3)
    with pytest.raises(UserError, match="needs labelled records"):
        probe_knn(train, Labelled(torch.empty(0, 5), torch.empty(0, dtype=torch.long)), test)
