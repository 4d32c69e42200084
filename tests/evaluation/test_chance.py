"""Chance in closed form against the mean over every ranking, and against what random embeddings really score."""

import itertools
from statistics import mean

import numpy as np
import pytest
import torch

from equipoise.evaluation.chance import any_hit, average_precision, retrieval_chance, zero_shot_chance
from equipoise.evaluation.retrieval import retrieval


@pytest.mark.parametrize(("matches", "candidates"), [(1, 6), (2, 6), (4, 6), (6, 6), (1, 1)])
def test_equals_the_mean_over_every_ranking(matches, candidates):
    rankings = [
        [place in chosen for place in range(candidates)]
        for chosen in itertools.combinations(range(candidates), matches)
    ]
    for k in (1, 2, 5, 10):
        assert any_hit(np.array([matches]), candidates, k)[0] == pytest.approx(mean(any(r[:k]) for r in rankings))
    expected = mean(sum(r[i] * sum(r[: i + 1]) / (i + 1) for i in range(matches)) / matches for r in rankings)
    assert average_precision(np.array([float(matches)]), candidates)[0] == pytest.approx(expected)


def test_random_embeddings_score_about_chance():
    random = torch.Generator().manual_seed(0)
    images, texts = torch.randn(300, 32, generator=random), torch.randn(900, 32, generator=random)
    image_of_text = torch.arange(900) % 250  # fifty images without a text
    relevance = torch.rand(300, 900, generator=random) < 0.2
    got = retrieval(images, texts, lambda u, v: u @ v.T, image_of_text, relevance)
    expected = retrieval_chance(300, image_of_text, relevance)
    assert set(expected) == {name for name in got if "queries" not in name}
    for name in expected:
        assert got[name] == pytest.approx(expected[name], abs=0.06 if name != "rsum" else 8)


def test_zero_shot_chance_knows_few_classes():
    assert zero_shot_chance(4) == {"acc1": 0.25, "mean_per_class_recall": 0.25}
    assert zero_shot_chance(16)["acc5"] == 5 / 16
