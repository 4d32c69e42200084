"""Effective robustness against the formula written out, on lines that are known."""

from __future__ import annotations

import math

import pytest

from equipoise.evaluation.effective_robustness import baseline_line, logit
from equipoise.types import UserError


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def on_line(accuracy: float, slope: float, intercept: float) -> float:
    return sigmoid(slope * math.log(accuracy / (1 - accuracy)) + intercept)


def test_a_line_in_logits_is_found_and_models_on_it_have_none():
    baselines = [(p, on_line(p, 1.2, -0.7)) for p in (0.3, 0.55, 0.76, 0.81)]
    line = baseline_line(baselines, 1000, 1000)
    assert (line.slope, line.intercept, line.fit, line.models) == pytest.approx((1.2, -0.7, 1.0, 4))
    for accuracy in (0.1, 0.5, 0.9):
        assert line.effective(accuracy, on_line(accuracy, 1.2, -0.7), 1000) == pytest.approx(0, abs=1e-12)
        assert line.effective(accuracy, 0.6, 1000) == pytest.approx(0.6 - on_line(accuracy, 1.2, -0.7))


def test_the_line_is_that_of_least_squares():
    """By the normal equations, in plain Python."""
    baselines = [(0.2, 0.1), (0.4, 0.35), (0.6, 0.3), (0.8, 0.7)]
    points = [(math.log(p / (1 - p)), math.log(q / (1 - q))) for p, q in baselines]
    mean_x, mean_y = (sum(one[k] for one in points) / 4 for k in (0, 1))
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)
    line = baseline_line(baselines, 100, 100)
    assert (line.slope, line.intercept) == pytest.approx((slope, mean_y - slope * mean_x))
    rest = sum((y - slope * x - mean_y + slope * mean_x) ** 2 for x, y in points)
    assert line.fit == pytest.approx(1 - rest / sum((y - mean_y) ** 2 for _, y in points))


def test_all_and_nothing_are_half_a_picture_away():
    assert logit(0, 10) == pytest.approx(math.log(0.05 / 0.95)) == -logit(1, 10)
    assert logit(0.5, 10) == 0
    assert baseline_line([(0, 0), (1, 1)], 10, 10).slope == pytest.approx(1)


@pytest.mark.parametrize("pairs", [[], [(0.5, 0.4)], [(0.5, 0.4), (0.5, 0.3)]])
def test_too_few_baselines_are_one_sentence(pairs):
    with pytest.raises(UserError, match="--baseline"):
        baseline_line(pairs, 100, 100)
