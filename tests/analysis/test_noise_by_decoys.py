"""The share of wrong pairs by captions that surely are wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from equipoise.analysis.decoys import Decoys
from equipoise.analysis.noise import NoiseEstimate, Pairs
from equipoise.analysis.noise_by_decoys import ENOUGH, TIMES, many_decoys, share_by_decoys, with_share_by_decoys


def drawn(seed: int, images: int, each: int, wrong: float, apart: float = 4.0) -> tuple[np.ndarray, np.ndarray]:
    """log r of captions, where those of an image are wrong together and share half of their luck: the true log ratio
    of a caption by itself, `apart` standard deviations between right and wrong ones."""
    rng = np.random.default_rng(seed)
    owners = np.arange(images).repeat(each)
    moved = (rng.random(images) < wrong)[owners]
    luck = (rng.normal(size=images)[owners] + rng.normal(size=len(owners))) / math.sqrt(2)
    return np.where(moved, -1, 1) * apart**2 / 2 + apart * luck, owners


def decoys(seed: int, images: int, each: int, apart: float = 4.0) -> Decoys:
    return Decoys(*drawn(seed, images, each, 1.0, apart))


def test_the_formula_by_hand():
    surely = np.array(
        [-3.0, -2.0, -1.5, -1.0, -0.5, 0.0, 0.2, 0.4, 0.6, 1.0]
    )  # three are below the 30% quantile, -1.15
    own = np.r_[-5.0, -1.2, np.full(18, 4.0)]
    c = (math.exp(-3) + math.exp(-2) + math.exp(-1.5)) / 10
    share, (low, high) = share_by_decoys(own, np.arange(20), Decoys(surely, np.arange(10)))
    assert share == pytest.approx((2 / 20 - c) / (3 / 10 - c))
    of_all, of_wrong = 0.1 * 0.9 / 20, 0.3 * 0.7 / 10  # variances of shares of captions that are each by itself
    assert low == pytest.approx(max(share - 1.96 * math.sqrt(of_all + share**2 * of_wrong) / (0.3 - c), 0))
    most = (2 / 20) / (3 / 10)
    assert high == pytest.approx(most + 1.96 * math.sqrt(of_all + most**2 * of_wrong) / 0.3)
    together = share_by_decoys(own, np.array([0, 0, *range(1, 19)]), Decoys(surely, np.arange(10)))
    assert together[0] == share
    assert together[1][1] > high, "two captions of one image are less to go by than two of two"
    everything = share_by_decoys(surely, np.arange(10), Decoys(np.linspace(5, 6, 10), np.arange(10)))
    assert everything[0] == 1.0, "no more than all"


@pytest.mark.parametrize("wrong", [0.0, 0.1, 0.4, 0.8])
@pytest.mark.parametrize(("each", "apart"), [(1, 4.0), (4, 4.0), (1, 2.0)])
def test_the_share_is_read_and_the_interval_holds_it_as_often_as_it_says(wrong: float, each: int, apart: float):
    """Of 100 sets 95 hold the truth or more, for the upper end is on the safe side; captions that are taken for
    independent would hold it far less often."""
    seeds = range(100)
    read = [
        share_by_decoys(*drawn(seed, 400, each, wrong, apart), decoys(1000 + seed, 1600, each, apart)) for seed in seeds
    ]
    truths = [np.mean(np.random.default_rng(seed).random(400) < wrong) for seed in seeds]
    assert np.mean([share for share, _ in read]) == pytest.approx(wrong, abs=0.02)
    held = np.mean([low <= truth <= high for truth, (_, (low, high)) in zip(truths, read, strict=True)])
    assert held >= 0.93


def test_right_ones_that_fit_badly_are_taken_into_account():
    """Judges that tell little apart: every second standard deviation is one that both share."""
    ratios, owners = drawn(3, 20_000, 1, 0.2, apart=1.5)
    surely = decoys(4, 20_000, 1, apart=1.5)
    limit = np.quantile(surely.log_ratio, 0.3)
    plain = (ratios <= limit).mean() / 0.3
    share, (low, high) = share_by_decoys(ratios, owners, surely)
    assert plain > 0.24
    assert share == pytest.approx(0.2, abs=0.015)
    assert low < share < plain < high


def test_a_judge_that_knows_nothing_reads_that_all_are_wrong():
    surely = Decoys(np.zeros(2000), np.arange(2000))
    assert share_by_decoys(np.zeros(500), np.arange(500), surely)[0] == 1.0


def test_what_else_was_read_stays():
    reading = NoiseEstimate(0.3, (0.2, 0.4), 12.0, 9.0)
    ratios, owners = drawn(0, 3000, 2, 0.4)
    found = with_share_by_decoys(reading, ratios, owners, decoys(7, 3000, 2))
    assert (found.scale, found.scale_as_clean) == (12.0, 9.0)
    assert found.share == pytest.approx(0.4, abs=0.04)
    assert found.interval[0] < found.share < found.interval[1]


def test_of_few_images_each_gets_the_captions_of_several_others():
    torch.manual_seed(0)
    points = Pairs(torch.randn(30, 4), torch.randn(60, 4), torch.arange(30).repeat_interleave(2))
    found = many_decoys(points, lambda rows, cols: F.normalize(rows) @ F.normalize(cols).T, 3.0, 2048, seed=1)
    assert len(found.log_ratio) == TIMES * 60
    assert np.bincount(found.owners).tolist() == [2] * (TIMES * 30), "an image each time anew"
    assert len(np.unique(found.log_ratio.round(9))) > 2 * 60
    assert ENOUGH > 30
