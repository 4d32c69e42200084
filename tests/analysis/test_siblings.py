"""What an image's other captions say: all where noise is by image, nothing where it is by caption."""

from __future__ import annotations

import numpy as np
import pytest

from equipoise.analysis.auroc import auroc
from equipoise.analysis.siblings import _falling, right_with_siblings, siblings_share

IMAGES, CAPTIONS, SHARE = 4000, 5, 0.4
OWNERS = np.repeat(np.arange(IMAGES), CAPTIONS)


def evidence(wrong: np.ndarray, strength: float = 2.0) -> np.ndarray:
    """log r of two normals, N(s²/2, s²) for right captions and N(-s²/2, s²) for wrong ones: the ratio is itself."""
    drawn = np.random.default_rng(1).normal(size=len(wrong)) * strength
    return drawn + np.where(wrong, -1, 1) * strength**2 / 2


def wrong_by(level: str) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.repeat(rng.random(IMAGES) < SHARE, CAPTIONS) if level == "image" else rng.random(len(OWNERS)) < SHARE


def alone(log_ratio: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-(log_ratio + np.log((1 - SHARE) / SHARE))))


def test_captions_that_are_wrong_together_are_found_together():
    wrong = wrong_by("image")
    ratio = evidence(wrong)
    right = right_with_siblings(ratio, OWNERS, SHARE)
    assert auroc(right, wrong) > 0.99 > 0.93 > auroc(alone(ratio), wrong)
    sums = np.bincount(OWNERS, ratio)[OWNERS]  # the best that can be known: all five at once
    best = 1 / (1 + np.exp(-(sums + np.log((1 - SHARE) / SHARE))))
    assert np.mean((right > 0.5) == (best > 0.5)) > 0.97


def test_where_single_captions_are_wrong_siblings_tell_nothing():
    wrong = wrong_by("caption")
    ratio = evidence(wrong)
    share = siblings_share(ratio, OWNERS, SHARE)
    assert share.min() > SHARE - 0.07
    assert share.max() < SHARE + 0.07
    assert right_with_siblings(ratio, OWNERS, SHARE) == pytest.approx(alone(ratio), abs=0.08)


def test_probabilities_are_those_that_come_true():
    wrong = wrong_by("image")
    right = right_with_siblings(evidence(wrong, 1.2), OWNERS, SHARE)
    for low in (0.1, 0.3, 0.5, 0.7):
        near = (right >= low) & (right < low + 0.2)
        assert near.sum() > 100
        assert np.mean(~wrong[near]) == pytest.approx(right[near].mean(), abs=0.12)


def test_hard_images_are_not_called_wrong_where_nothing_is():
    """Evidence that is low for all captions of an image tells how hard it is, not that they are wrong."""
    right = np.zeros(len(OWNERS), dtype=bool)
    hard = 2.5 * np.random.default_rng(2).normal(size=IMAGES)[OWNERS]
    ratio = evidence(right, 1.5) + hard
    assert (right_with_siblings(ratio, OWNERS, 0.0) < 0.5).mean() < 0.01
    assert siblings_share(ratio, OWNERS, 0.02).mean() == pytest.approx(0.02, abs=1e-6)


def test_an_only_caption_goes_by_the_share_of_all():
    ratio = np.array([2.0, -1.0, 0.5])
    assert siblings_share(ratio, np.arange(3), 0.3).tolist() == [0.3] * 3
    mixed = np.append(OWNERS, IMAGES)  # one image more, with one caption
    share = siblings_share(np.append(evidence(wrong_by("image")), 0.7), mixed, 0.3)
    assert share[-1] == 0.3


def test_few_captions_are_judged_by_themselves():
    ratio = evidence(wrong_by("image"))[:50]
    assert siblings_share(ratio, OWNERS[:50], SHARE).tolist() == [SHARE] * 50


def test_shares_are_made_to_fall():
    assert _falling(np.array([0.9, 0.5, 0.7, 0.1])).tolist() == pytest.approx([0.9, 0.6, 0.6, 0.1])
    assert _falling(np.array([0.1, 0.2, 0.6])).tolist() == pytest.approx([0.3] * 3)
