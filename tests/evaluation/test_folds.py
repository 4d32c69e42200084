"""Folds against ranking each part by itself; correlations with grades against scipy's."""

from __future__ import annotations

from pathlib import Path
from statistics import mean

import numpy as np
import pytest
import torch
from scipy.stats import rankdata, spearmanr
from test_retrieval import dot

from equipoise.data.annotations.graded_pairs import read_graded
from equipoise.evaluation.folds import chance_in_folds, ranks_in_folds, retrieval_in_folds
from equipoise.evaluation.graded_similarity import graded_correlation, mean_ranks, spearman
from equipoise.evaluation.ranking import retrieval, retrieval_chance
from equipoise.types import UserError


@pytest.fixture
def points():
    torch.manual_seed(0)
    return torch.randn(40, 6), torch.randn(200, 6), torch.arange(40).repeat_interleave(5)


def test_the_mean_of_parts_that_are_ranked_alone(points):
    images, texts, owners = points
    got = retrieval_in_folds(images, texts, dot, owners, 5)
    parts = [retrieval(images[8 * k : 8 * k + 8], texts[40 * k : 40 * k + 40], dot, owners[:40]) for k in range(5)]
    for name, value in got.items():
        if name.endswith("queries"):
            assert value == sum(part[name] for part in parts)
        else:
            assert value == pytest.approx(mean(part[name] for part in parts), abs=1e-12)
    assert got["text_to_image_R@1"] > retrieval(images, texts, dot, owners)["text_to_image_R@1"]
    assert chance_in_folds(40, owners, 5) == pytest.approx(retrieval_chance(8, owners[:40]))


def test_ranks_of_queries_lie_in_their_folds(points):
    images, texts, owners = points
    ranks, numbers = ranks_in_folds(images, texts, dot, owners, 5), retrieval_in_folds(images, texts, dot, owners, 5)
    for direction, found in ranks.items():
        assert (found.first <= 1).double().mean().item() == pytest.approx(numbers[f"{direction}_R@1"])


def test_folds_have_equal_sizes(points):
    with pytest.raises(UserError, match="cannot be cut into 3 equal folds"):
        retrieval_in_folds(*points[:2], dot, points[2], 3)


def test_correlation_is_spearmans():
    random = np.random.default_rng(0)
    values, grades = random.normal(size=60).round(1), random.integers(0, 6, 60).astype(float)
    assert spearman(values, grades) == pytest.approx(spearmanr(values, grades).statistic, abs=1e-12)
    assert mean_ranks(grades).tolist() == rankdata(grades).tolist()


def test_the_bootstrap_draws_one_pair_of_half_the_queries():
    """With one pair a query and all queries alike it is near ρ; with one query of many pairs it is not led by it."""
    random = np.random.default_rng(1)
    grades = random.integers(0, 6, 400).astype(float)
    values = grades + random.normal(size=400)
    found = graded_correlation(values, grades, range(400), draws=300)
    assert found.mean == pytest.approx(found.rho, abs=0.02)
    assert 0 < found.deviation < 0.1
    heavy = np.concatenate([np.zeros(2000, int), np.arange(1, 401)])
    led = graded_correlation(
        np.concatenate([-np.arange(2000.0), values]), np.concatenate([np.linspace(0, 5, 2000), grades]), heavy, 200
    )
    assert led.rho < 0 < led.mean
    again = graded_correlation(values, grades, range(400), draws=300)
    assert again == found


def test_graded_pairs_are_read_as_they_are_published(tmp_path: Path):
    sits, sis = tmp_path / "sits_test.csv", tmp_path / "sis_test.csv"
    sits.write_text(
        "caption,image,agg_score,sampling_method\nCOCO_val2014:sentid:648388,COCO_val2014_000000431431.jpg,1.8,c2i\n"
    )
    sis.write_text("image1,image2,agg_score,sampling_method\nCOCO_val2014_000000000042.jpg,COCO_val2014_07.jpg,3,i2i\n")
    found = read_graded(sits, "sits")
    assert (found.first, found.second, found.grades) == (("648388",), ("431431",), (1.8,))
    assert read_graded(sis, "sis").second == ("7",)
    with pytest.raises(UserError, match='no column "caption1"'):
        read_graded(sis, "sts")
