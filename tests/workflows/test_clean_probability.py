"""P(right) of hand-made evidence: two images of two captions, one per fold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from equipoise.analysis.noise import NoiseEstimate
from equipoise.data.keep.settings import Clean
from equipoise.types import UserError
from equipoise.workflows.audit.judge import _scores
from equipoise.workflows.clean.probability import Evidence
from equipoise.workflows.clean.run import _chosen

EVIDENCE = Evidence(
    log_ratio=np.array([2.0, -4.0, 1.0, 1.0]),
    owners=np.array([0, 0, 1, 1]),
    fold=np.array([0, 1]),
    readings=[NoiseEstimate(share, (share - 0.1, share + 0.1), 1.0, 1.0) for share in (0.5, 0.2)],
    aurocs=[0.9, 0.8],
    knowing=[True, True],
    sizes=[1, 3],
)


def posterior(log_ratio: float, share: float) -> float:
    odds = np.exp(log_ratio) * (1 - share) / share
    return odds / (1 + odds)


def test_each_caption_by_its_own_evidence_and_its_judges_share():
    expected = [posterior(2, 0.5), posterior(-4, 0.5), posterior(1, 0.2), posterior(1, 0.2)]
    assert EVIDENCE.right("caption") == pytest.approx(expected)


def test_all_captions_of_an_image_by_their_mean():
    assert EVIDENCE.right("image")[:2] == pytest.approx([posterior(-1, 0.5)] * 2)


def test_the_share_is_the_mean_over_records():
    assert EVIDENCE.share == pytest.approx((0.5 + 3 * 0.2) / 4)
    low, high = EVIDENCE.interval
    assert low < 0.175 < 0.375 < high  # wider than the mean of the two, for the judges disagree


def test_what_a_judge_that_knows_nothing_judges_is_not_known():
    some = replace(EVIDENCE, knowing=[False, True])
    assert np.isnan(some.right("caption")).tolist() == [True, True, False, False]
    assert some.share == pytest.approx(0.2)


def test_a_second_round_goes_by_the_shares_of_the_first():
    second = replace(EVIDENCE, readings=[NoiseEstimate(0.01, (0, 0.1), 1.0, 1.0)] * 2)
    assert second.right("caption", prior=EVIDENCE) == pytest.approx(EVIDENCE.right("caption"))
    ignorant = replace(EVIDENCE, knowing=[False, True])
    assert second.right("caption", prior=ignorant)[0] == pytest.approx(posterior(2, 0.2))


def test_evidence_of_the_field_is_the_mean_of_a_folds_judges_and_nan_where_they_know_nothing():
    scored = replace(EVIDENCE, scores=np.array([[0.2, 0.4, 0.6, 0.8], [0.4, 0.8, 0.0, 0.2]]), knowing=[False, True])
    assert scored.scored("caption")[2:] == pytest.approx([0.3, 0.5])
    assert scored.scored("image")[2:] == pytest.approx([0.4, 0.4])
    assert np.isnan(scored.scored("auto")[:2]).all()


def test_each_of_two_judges_learns_from_what_the_other_chose():
    scores = np.array([[0.2, 0.4, 0.6, 0.8], [0.4, 0.8, 0.0, 0.2]])
    settings = Clean(evidence="co_teaching", judges=2, rounds=2, per="caption")
    first, second = _chosen(replace(EVIDENCE, scores=scores), settings, EVIDENCE)
    assert first.tolist() == [False, True, False, False]
    assert second.tolist() == [False, False, True, True]


def test_a_judge_that_knows_nothing_says_what_the_others_say():
    scores = [torch.tensor([0.2, 0.4]), torch.tensor([9.0, 9.0]), torch.tensor([0.4, 0.8])]
    assert _scores(scores, [True, False, True]).flatten().tolist() == pytest.approx([0.2, 0.4, 0.3, 0.6, 0.4, 0.8])
    assert _scores(scores, [False] * 3).shape == (3, 2)
    assert _scores([], [True]) is None


def test_no_judge_that_knows_anything_is_a_sentence():
    with pytest.raises(UserError, match=r"AUROC 0\.90 and 0\.80"):
        replace(EVIDENCE, knowing=[False, False]).require_knowledge()
