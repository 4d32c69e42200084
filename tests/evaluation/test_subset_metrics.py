"""Numbers of the subsets table: loops, and scikit-learn and scipy beside them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from equipoise.evaluation.modalities import (
    METRICS,
    correlation,
    label_chance,
    label_metrics,
    over_seeds,
    partial_geometry,
    subsets_of,
    weighted_f1,
)
from equipoise.types import UserError


def sentiment(n: int = 200, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Numbers told and true; a tenth of the true ones are 0, some told ones lie beyond 3."""
    draw = torch.Generator().manual_seed(seed)
    labels = (6 * torch.rand(n, generator=draw) - 3).mul(5).round() / 5
    labels[: n // 10] = 0
    return labels + 1.5 * torch.randn(n, generator=draw), labels


def f1_aloud(told: list[int], truth: list[int]) -> float:
    total = 0.0
    for c in sorted({*told, *truth}):
        right = sum(t == c == y for t, y in zip(told, truth, strict=True))
        wrong = sum((t == c) != (y == c) for t, y in zip(told, truth, strict=True))
        total += truth.count(c) * (2 * right / (2 * right + wrong) if right else 0.0)
    return total / len(truth)


def test_numbers_read_aloud():
    told, labels = sentiment()
    found = label_metrics(told[:, None], labels)
    pairs = list(zip(told.double().tolist(), labels.double().tolist(), strict=True))
    signed = [(t > 0, y > 0) for t, y in pairs if y != 0]
    assert len(signed) < len(pairs)
    assert found["accuracy"] == pytest.approx(sum(t == y for t, y in signed) / len(signed))
    seven = sum(round(min(3, max(-3, t))) == round(min(3, max(-3, y))) for t, y in pairs) / len(pairs)
    assert found["accuracy7"] == pytest.approx(seven)
    assert found["mae"] == pytest.approx(sum(abs(t - y) for t, y in pairs) / len(pairs))
    assert found["f1"] == pytest.approx(f1_aloud([int(t) for t, _ in signed], [int(y) for _, y in signed]))
    mean = [sum(part) / len(pairs) for part in zip(*pairs, strict=True)]
    products = [sum((p[a] - mean[a]) * (p[b] - mean[b]) for p in pairs) for a, b in ((0, 1), (0, 0), (1, 1))]
    assert found["correlation"] == pytest.approx(products[0] / math.sqrt(products[1] * products[2]))
    assert found.keys() <= METRICS.keys()


def test_numbers_by_scikit_learn_and_scipy():
    metrics, stats = pytest.importorskip("sklearn.metrics"), pytest.importorskip("scipy.stats")
    told, labels = (x.numpy() for x in sentiment(seed=3))
    found, kept = label_metrics(torch.from_numpy(told), torch.from_numpy(labels)), labels != 0
    signs = told[kept] > 0, labels[kept] > 0
    assert found["accuracy"] == pytest.approx(metrics.accuracy_score(signs[1], signs[0]))
    assert found["f1"] == pytest.approx(metrics.f1_score(signs[1], signs[0], average="weighted"))
    published = metrics.f1_score(signs[0], signs[1], average="weighted")  # their order
    exchanged = weighted_f1(*(torch.from_numpy(x).long() for x in reversed(signs)))
    assert exchanged == pytest.approx(published)
    assert published != pytest.approx(found["f1"], abs=1e-6)
    assert found["mae"] == pytest.approx(metrics.mean_absolute_error(labels, told))
    assert found["correlation"] == pytest.approx(stats.pearsonr(told, labels).statistic)
    seven = np.round(np.clip(told, -3, 3)) == np.round(np.clip(labels, -3, 3))
    assert found["accuracy7"] == pytest.approx(seven.mean())


@pytest.mark.parametrize("classes", [2, 5])
def test_classes_read_aloud_and_by_scikit_learn(classes):
    metrics = pytest.importorskip("sklearn.metrics")
    draw = torch.Generator().manual_seed(classes)
    scores, labels = torch.randn(90, classes, generator=draw), torch.randint(0, 2, (90,), generator=draw)
    found, told = label_metrics(scores, labels), scores.argmax(1)
    assert found.keys() == {"accuracy", "f1"}
    assert found["accuracy"] == pytest.approx(metrics.accuracy_score(labels, told))
    assert found["f1"] == pytest.approx(f1_aloud(told.tolist(), labels.tolist()))
    assert found["f1"] == pytest.approx(metrics.f1_score(labels, told, average="weighted"))


def test_one_class_and_constants_have_what_is_defined():
    only = torch.ones(6, dtype=torch.long)
    scores = torch.tensor([[0.0, 1.0]] * 5 + [[1.0, 0.0]])
    found = label_metrics(scores, only)
    assert found["accuracy"] == pytest.approx(5 / 6)
    assert found["f1"] == pytest.approx(2 * 5 / (2 * 5 + 1))
    same = label_metrics(torch.full((4,), 0.1), torch.tensor([1.0, -2.0, 0.0, 3.0]))
    assert "correlation" not in same
    assert same["accuracy"] == pytest.approx(2 / 3)
    nothing = label_metrics(torch.tensor([0.5, -0.5]), torch.zeros(2))
    assert nothing.keys() == {"mae", "accuracy7"}
    assert "accuracy7" not in label_metrics(torch.tensor([40.0, 2.0]), torch.tensor([30.0, 7.0]))
    assert label_metrics(torch.zeros(0, 3), torch.zeros(0, dtype=torch.long)) == {}
    assert correlation(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-2.0, -4.0, -6.0])) == pytest.approx(-1)


def test_guessing_is_expected_to_score_its_chance():
    draw = torch.Generator().manual_seed(0)
    classes = torch.randint(0, 3, (30_000,), generator=draw)
    guessed = label_metrics(torch.rand(30_000, 3, generator=draw), classes)
    assert guessed["accuracy"] == pytest.approx(label_chance(3)["accuracy"], abs=0.02)
    numbers = torch.randint(-3, 4, (30_000,), generator=draw).double()
    guessed = label_metrics(torch.randint(-3, 4, (30_000,), generator=draw) - 0.25, numbers)
    assert guessed["accuracy7"] == pytest.approx(label_chance(1)["accuracy7"], abs=0.02)


def test_all_subsets_in_a_fixed_order():
    found = subsets_of(("text", "video", "audio"))
    assert ["+".join(some) for some in found] == [
        "text", "video", "audio", "text+video", "text+audio", "video+audio", "text+video+audio",
    ]  # fmt: skip
    for count in (1, 2, 5):
        assert len(set(subsets_of([str(k) for k in range(count)]))) == 2**count - 1


def test_partial_codes_against_joint_ones_read_aloud():
    draw = torch.Generator().manual_seed(0)
    partial, joint = (torch.randn(7, 3, generator=draw).double() for _ in range(2))
    found = partial_geometry(partial, joint)

    def squared(a, b) -> float:
        return sum((x - y) ** 2 for x, y in zip(a.tolist(), b.tolist(), strict=True))

    alignments = [
        min(squared(partial[i], joint[k]) for k in range(7) if k != i) - squared(partial[i], joint[i]) for i in range(7)
    ]
    assert found["alignment"] == pytest.approx(sum(alignments) / 7)
    both = [*partial, *joint]
    spread = [math.exp(-2 * squared(both[i], both[j])) for i in range(14) for j in range(i)]
    assert found["uniformity"] == pytest.approx(-math.log(sum(spread) / len(spread)))
    assert partial_geometry(partial[:1], joint[:1]) == {}
    near = partial_geometry(joint + 0.01, joint)
    assert near["alignment"] > found["alignment"]


def test_mean_and_deviation_over_seeds():
    runs = [{"a": value, "b": 1.0} for value in (0.2, 0.5, 0.8)] + [{"a": 0.5}]
    found = over_seeds(runs)
    assert found.keys() == {"a"}
    assert found["a"] == (pytest.approx(0.5), pytest.approx(np.std([0.2, 0.5, 0.8, 0.5], ddof=1)))
    assert over_seeds(runs[:1]) == {"a": (0.2, 0.0), "b": (1.0, 0.0)}


@pytest.mark.parametrize(
    ("told", "labels", "sentence"),
    [
        (torch.zeros(4, 2), torch.zeros(4), "one number per sample"),
        (torch.zeros(4), torch.zeros(4, dtype=torch.long), r"scores \[N, C\]"),
        (torch.zeros(4, 2), torch.full((4,), 2), "labels reach from 2 to 2, but 2 are told"),
        (torch.tensor([0.0, math.nan]), torch.zeros(2), "not all finite"),
        (torch.zeros(2), torch.tensor([0.0, math.inf]), "not all finite"),
    ],
)
def test_what_cannot_be_measured_is_refused(told, labels, sentence):
    with pytest.raises(UserError, match=sentence):
        label_metrics(told, labels)
    with pytest.raises(UserError, match="no runs"):
        over_seeds([])
