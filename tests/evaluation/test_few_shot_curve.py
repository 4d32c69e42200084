"""The few-shot curve: which pictures are drawn, the regression on them by scikit-learn itself, mistakes."""

from __future__ import annotations

import pytest
import torch

from equipoise.evaluation.few_shot_curve import ShotAccuracy, draw_curve, drawn, few_shot_curve
from equipoise.evaluation.linear_probe import Labelled
from equipoise.types import UserError

sklearn = pytest.importorskip("sklearn.linear_model", reason="scikit-learn is not installed: the curve is NOT tested")


def clouds(count: int, seed: int, spread: float = 1.5) -> Labelled:
    centres = torch.randn(3, 6, generator=torch.Generator().manual_seed(99))
    labels = torch.arange(count) % 3
    noise = torch.randn(count, 6, generator=torch.Generator().manual_seed(seed))
    return Labelled(centres[labels] + spread * noise, labels)


def test_fewer_shots_are_the_first_of_more_and_draws_differ():
    known = clouds(60, 1)
    few, more, other = (drawn(known, *words, "shots") for words in ((2, 0, 0), (5, 0, 0), (5, 0, 1)))
    assert few.classes.bincount().tolist() == [2, 2, 2]
    for one in range(3):
        assert torch.equal(few.features[few.classes == one], more.features[more.classes == one][:2])
    assert not torch.equal(more.features, other.features)
    rows = {tuple(row) for row in known.features.tolist()}
    assert {tuple(row) for row in other.features.tolist()} <= rows
    assert len({tuple(row) for row in other.features.tolist()}) == 15


def test_each_number_is_scikit_learns_on_the_same_pictures():
    train, validation, test = clouds(60, 1), clouds(30, 2), clouds(200, 3)
    calls: list[int] = []
    curve = few_shot_curve(train, validation, test, (8, 1), draws=2, seed=3, on_fit=lambda: calls.append(1))
    assert [one.shots for one in curve] == [1, 8]
    assert calls
    for one in curve:
        for number, (accuracy, c) in enumerate(zip(one.accuracies, one.penalties, strict=True)):
            some = drawn(train, one.shots, 3, number, "shots")
            peer = sklearn.LogisticRegression(C=c, max_iter=1000).fit(some.features.double().numpy(), some.classes)
            assert accuracy == pytest.approx(peer.score(test.features.double().numpy(), test.classes.numpy()))
    assert curve[1].mean > curve[0].mean


def test_mean_and_deviation_are_over_draws():
    one = ShotAccuracy(4, (0.5, 0.7), (1.0, 1.0))
    assert (one.mean, one.deviation) == pytest.approx((0.6, 0.02**0.5))
    assert ShotAccuracy(4, (0.5,), (1.0,)).deviation == 0
    assert draw_curve([one], 0.55, 0.1, "a sentence").axes


@pytest.mark.parametrize(
    ("shots", "draws", "said"), [((21,), 1, '"b" has 20'), ((0, 1), 1, "from 1"), ((), 1, "none"), ((1,), 0, "--draws")]
)
def test_mistakes_are_one_sentence(shots, draws, said):
    train = clouds(61, 1)
    with pytest.raises(UserError, match=said):
        few_shot_curve(train, clouds(30, 2), clouds(30, 3), shots, draws, class_names=("a", "b", "c"))
