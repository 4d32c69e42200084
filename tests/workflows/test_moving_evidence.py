"""The moving average of held-out evidence: against the formula read aloud, silent judges, and its file."""

from __future__ import annotations

import numpy as np
import pytest

from equipoise.analysis.noise import NoiseEstimate
from equipoise.types import UserError
from equipoise.workflows.clean.moving_evidence import averaged, store, stored
from equipoise.workflows.clean.probability import Evidence

OWNERS, FOLD = np.array([0, 0, 1, 2, 2, 3]), np.array([0, 1, 1, 0])


def said(ratios: list[float], shares: tuple[float, float], knows: tuple[bool, bool] = (True, True)) -> Evidence:
    readings = [NoiseEstimate(share, (share - 0.1, share + 0.05), 1.0, 1.0) for share in shares]
    return Evidence(np.array(ratios), OWNERS, FOLD, readings, (0.9, 0.8), knows, (2, 2))


def test_the_average_read_aloud():
    rounds = [[1.0, 2, 3, 4, 5, 6], [0.0, 0, -3, 8, 1, 2], [2.0, 2, 2, 2, 2, 2]]
    shares = [(0.4, 0.2), (0.2, 0.4), (0.6, 0.6)]
    found, expected, share = None, None, None
    for ratios, read in zip(rounds, shares, strict=True):
        found = averaged(said(ratios, read), found, 0.7)
        expected = ratios if expected is None else [0.7 * a + 0.3 * b for a, b in zip(expected, ratios, strict=True)]
        share = read if share is None else [0.7 * a + 0.3 * b for a, b in zip(share, read, strict=True)]
    assert found.log_ratio.tolist() == pytest.approx(expected)
    assert [reading.share for reading in found.readings] == pytest.approx(share)
    ends = [(one - 0.1, one + 0.05) for one in share]
    assert [end for reading in found.readings for end in reading.interval] == pytest.approx(sum(ends, ()))
    odds = [np.exp(expected[row]) * (1 - share[k]) / share[k] for row, k in enumerate(FOLD[OWNERS])]
    assert found.right("caption").tolist() == pytest.approx([odd / (1 + odd) for odd in odds], rel=1e-6)


def test_a_judge_that_knows_nothing_changes_nothing_and_one_that_learns_begins_anew():
    first = averaged(said([1.0] * 6, (0.4, 0.4), (True, False)), None, 0.5)
    assert np.isnan(first.right("caption")[FOLD[OWNERS] == 1]).all()
    second = averaged(said([3.0] * 6, (0.2, 0.2), (False, True)), first, 0.5)
    assert second.log_ratio.tolist() == [1.0, 1.0, 3.0, 3.0, 3.0, 1.0]  # captions of the second fold: 2, 3 and 4
    assert [reading.share for reading in second.readings] == [0.4, 0.2]
    assert second.knowing == [True, True]


def test_its_file_brings_it_back_and_the_older_one_goes(tmp_path):
    evidence = said([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], (0.4, 0.25))
    assert stored(tmp_path) is None
    store(tmp_path, 12, said([0.0] * 6, (0.1, 0.1)))
    store(tmp_path, 24, evidence)
    assert [path.name for path in tmp_path.iterdir()] == ["online-00000024.npz"]
    step, found = stored(tmp_path)
    assert step == 24
    assert found.log_ratio.tolist() == evidence.log_ratio.tolist()
    assert found.right("auto").tolist() == evidence.right("auto").tolist()
    assert list(found.sizes) == [2, 2]
    assert found.interval == evidence.interval
    (tmp_path / "online-00000024.npz").write_bytes(b"nothing")
    with pytest.raises(UserError, match="online-00000024"):
        stored(tmp_path)


def test_captions_nobody_was_asked_about_stay_as_they_were():
    """In parts shorter than an epoch: the first tells of captions 0 to 2, the second of 2 to 4, and of 5 no one."""
    nan = np.nan
    first = averaged(said([1.0, 2, 3, nan, nan, nan], (0.4, 0.4)), None, 0.5)
    second = averaged(said([nan, nan, 5.0, 6, 7, nan], (0.2, 0.2)), first, 0.5)
    assert second.log_ratio[:5].tolist() == [1.0, 2.0, 4.0, 6.0, 7.0]
    right = second.right("caption")
    assert np.isnan(right).tolist() == [False] * 5 + [True]
    assert right[0] == pytest.approx(1 / (1 + np.exp(-1.0) * 0.3 / 0.7), rel=1e-6)


def test_a_judge_that_knows_nothing_now_says_nothing_of_new_captions():
    nan = np.nan
    first = averaged(said([1.0, 2, nan, 3, 4, nan], (0.4, 0.4)), None, 0.5)
    second = averaged(said([9.0, nan, 9, 9, nan, 9], (0.2, 0.2), (False, False)), first, 0.5)
    assert np.array_equal(second.log_ratio, first.log_ratio, equal_nan=True)
    assert [reading.share for reading in second.readings] == [0.4, 0.4]
