"""Kinds of noise: the two readings against loops in float64, the rule by hand, and a judge that knows the truth."""

from __future__ import annotations

import math

import numpy as np
import torch

from equipoise.analysis.noise import Pairs
from equipoise.analysis.noise_kinds import ANOTHER, DETAIL, NONE, VAGUE, fit_elsewhere, kinds

SCALE = 7.0


def similarity(rows: torch.Tensor, cols: torch.Tensor) -> torch.Tensor:
    return rows @ cols.T


def test_share_and_best_fit_are_those_of_loops():
    make = torch.Generator().manual_seed(0)
    images, texts = (torch.randn(n, 4, generator=make, dtype=torch.float64) / 2 for n in (6, 700))
    owners, pool = torch.arange(700) % 6, torch.tensor([0, 2, 3, 5])
    means = torch.randn(6, generator=make).double(), torch.randn(700, generator=make).double()
    shares, best = fit_elsewhere(Pairs(images, texts, owners), pool, similarity, SCALE, means)
    for text in (0, 1, 2, 510, 511, 512, 699):
        others = [k for k in pool.tolist() if k != owners[text]]
        logits = [SCALE * float(images[k] @ texts[text]) for k in others]
        total = sum(map(math.exp, logits))
        entropy = -sum(math.exp(z) / total * (z - math.log(total)) for z in logits)
        assert math.isclose(float(shares[text]), math.exp(entropy) / len(others), rel_tol=1e-9)
        ratios = [z - (float(means[0][k]) + float(means[1][text])) / 2 for z, k in zip(logits, others, strict=True)]
        assert math.isclose(float(best[text]), max(ratios), rel_tol=1e-9)


def test_alone_a_caption_fits_nothing_else():
    shares, best = fit_elsewhere(
        Pairs(torch.eye(2), torch.eye(2), torch.arange(2)),
        torch.tensor([0]),
        similarity,
        SCALE,
        (torch.zeros(2).double(), torch.zeros(2).double()),
    )
    assert shares[0] == 0
    assert best[0] == -math.inf
    assert torch.isfinite(shares).all()


def test_the_rule():
    rows = [  # image, P(right), share that fits, m -> kind
        (0, 0.9, 0.01, -0.5, NONE),
        (0, 0.1, 0.01, -9.0, ANOTHER),  # one among right ones
        (0, 0.8, 0.40, -0.1, VAGUE),
        (0, 0.9, 0.01, -0.2, NONE),
        (1, 0.9, 0.01, -2.5, DETAIL),  # all of the image nearly fit
        (1, 0.4, 0.01, -4.0, DETAIL),
        (1, 0.2, 0.60, -0.1, ANOTHER),  # looks wrong, however many it fits
        (1, 0.1, 0.01, -8.0, ANOTHER),  # does not nearly fit
        (2, 0.1, 0.01, -9.0, ANOTHER),
        (2, 0.1, 0.01, -7.0, ANOTHER),
        (3, math.nan, 0.5, -3.0, NONE),
        (4, 0.7, 0.5, -3.0, VAGUE),  # vague ones have no median
    ]
    owners, right, fitted, margin, expected = (list(column) for column in zip(*rows, strict=True))
    assert kinds(np.array(right), np.array(fitted), np.array(margin), np.array(owners)) == expected


def test_captions_that_are_all_vague_or_none():
    right = np.full(3, 0.9)
    assert kinds(right, np.ones(3), np.full(3, -3.0), np.array([0, 0, 2])) == [VAGUE] * 3
    assert kinds(np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0, dtype=np.int64)) == []


def test_a_judge_that_knows_the_truth_names_the_kinds():
    """Images are eight yes-or-no traits; captions state all, one of them wrongly, those of another, or one alone."""
    rng = np.random.default_rng(0)
    count = 600
    images = rng.choice([-1.0, 1.0], (count, 8))
    texts = images.copy()
    truth = np.array([NONE] * 300 + [ANOTHER] * 100 + [DETAIL] * 100 + [VAGUE] * 100)
    texts[truth == ANOTHER] = rng.choice([-1.0, 1.0], (100, 8))
    wrong = np.flatnonzero(truth == DETAIL)
    texts[wrong, rng.integers(8, size=100)] *= -1
    texts[truth == VAGUE, 1:] = 0
    points = Pairs(*(torch.from_numpy(side) for side in (images, texts)), torch.arange(count))
    log_mean = torch.log(torch.cosh(torch.from_numpy(texts) * 1.6)).sum(1)  # of exp(t' s) over all images
    means = torch.full((count,), math.log(math.cosh(1.6)) * 8).double(), log_mean
    fitted, best = fit_elsewhere(points, torch.arange(count), similarity, 1.6, means)
    ratio = 1.6 * (points.images * points.texts).sum(1) - (means[0] + means[1]) / 2
    right = torch.sigmoid(ratio + (means[0] - means[1]) / 2 + math.log(2)).numpy()  # by what each text can be of
    found = np.array(kinds(right, fitted.numpy(), (ratio - best).numpy(), np.arange(count)))
    for kind in (NONE, ANOTHER, DETAIL, VAGUE):
        assert (found[truth == kind] == kind).mean() > 0.7, kind
