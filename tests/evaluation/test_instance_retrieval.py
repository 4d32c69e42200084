"""Image-to-image precision against loops over the definitions of the revisited protocol; the bootstrap against both."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from equipoise.data.benchmark_sets.instance_set import Truth
from equipoise.evaluation.bootstrap import interval, resampled_means, resampled_recall
from equipoise.evaluation.instance_retrieval import instance_precision, revisited
from equipoise.types import UserError


def dot(u, v):
    return u @ v.T


def loops(scores: np.ndarray, positives: set[int], ignored: set[int], k: int) -> tuple[float, float]:
    """Rank everything, take out what is ignored, walk down the list; ties against the model."""
    order = sorted(range(len(scores)), key=lambda item: (-scores[item], item in positives))
    kept = [item for item in order if item not in ignored]
    places = [place for place, item in enumerate(kept) if item in positives]
    area = 0.0
    for found, place in enumerate(places):
        before = 1.0 if place == 0 else found / place
        area += (before + (found + 1) / (place + 1)) / 2 / len(positives)
    last = min(max(places) + 1, k)
    return area, sum(place < last for place in places) / last


@pytest.mark.parametrize("levels", [None, 2])
def test_equals_the_loops_in_every_setup(levels):
    torch.manual_seed(0)
    queries, database = torch.randn(9, 4, dtype=torch.float64), torch.randn(60, 4, dtype=torch.float64)
    if levels:
        queries, database = (queries * levels).round(), (database * levels).round()
    random = np.random.default_rng(0)
    truth = []
    for number in range(9):
        shuffled = random.permutation(60).tolist()
        truth.append(Truth(tuple(shuffled[:number]), tuple(shuffled[20:23]), tuple(shuffled[30:40])))
    found = revisited(queries, database, dot, truth)
    scores = (queries @ database.T).numpy()
    setups = {"easy": ("easy", "hard junk"), "medium": ("easy hard", "junk"), "hard": ("hard", "easy junk")}
    for setup, (good, bad) in setups.items():
        for row, one in enumerate(truth):
            positives, ignored = ({n for kind in kinds.split() for n in getattr(one, kind)} for kinds in (good, bad))
            got = found[setup].average[row], found[setup].at_k[row]
            if positives:
                assert got == pytest.approx(loops(scores[row], positives, ignored, 10), abs=1e-12)
            else:
                assert np.isnan(got).all()


def test_queries_may_come_in_parts_and_one_positive_is_its_reciprocal_by_trapezoid():
    queries, database = torch.eye(3), torch.tensor([[1.0, 0, 0], [0, 1, 0], [0.5, 0, 1], [0.9, 0, 2.0]])
    whole = instance_precision(queries, database, dot, [[0], [1], [2]], [[]] * 3, k=1)
    parts = instance_precision(queries, database, dot, [[0], [1], [2]], [[]] * 3, k=1, chunk=1)
    assert whole.average.tolist() == parts.average.tolist() == [1.0, 1.0, 0.25]
    assert whole.at_k.tolist() == [1.0, 1.0, 0.0]


def test_all_alike_is_never_perfect():
    same = torch.ones(2, 3)
    found = instance_precision(same, torch.ones(5, 3), dot, [[0], [1]], [[], []])
    assert found.average.tolist() == pytest.approx([0.1, 0.1])


def test_nothing_to_rank_and_numbers_that_are_none_are_sentences():
    with pytest.raises(UserError, match="needs queries and a database"):
        instance_precision(torch.ones(0, 2), torch.ones(3, 2), dot, [], [])
    with pytest.raises(UserError, match="not finite"):
        instance_precision(torch.full((1, 2), torch.nan), torch.ones(3, 2), dot, [[0]], [[]])


def test_the_bootstrap_of_a_mean_has_the_width_of_its_standard_error():
    hits = (np.random.default_rng(0).random(2000) < 0.3).astype(float)[:, None]
    low, high = interval(resampled_means(hits, np.ones_like(hits))[:, 0])
    width = 2 * 1.96 * np.sqrt(hits.mean() * (1 - hits.mean()) / 2000)
    assert low < hits.mean() < high
    assert high - low == pytest.approx(width, rel=0.1)


def test_captions_of_an_image_are_drawn_together():
    """Five captions that all hit or all miss say no more than one: the interval is as wide as that of the images."""
    hits = (np.random.default_rng(1).random(400) < 0.5).astype(float)[:, None]
    alone = interval(resampled_means(hits, np.ones_like(hits))[:, 0])
    together = interval(resampled_means(5 * hits, np.full_like(hits, 5))[:, 0])
    assert together == alone


def test_recall_of_classes_weighs_them_equally():
    labels = np.array([0] * 98 + [1] * 2)
    right = np.array([1.0] * 98 + [0.0] * 2)
    drawn = resampled_recall(right, labels, 3)
    assert np.median(drawn) == pytest.approx(0.5)
    low, high = interval(drawn)
    assert low <= 0.5 <= high
