"""The noise level is read off pairs whose noise is known, and the formula is the one in the header."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from equipoise.analysis.auroc import auroc
from equipoise.analysis.noise import NoiseEstimate, Pairs, log_ratios, pooled, read_noise
from equipoise.types import UserError


def inner(rows: Tensor, cols: Tensor) -> Tensor:
    return rows @ cols.T


def noisy_pairs(share: float, count: int = 1500, dim: int = 16, seed: int = 0) -> tuple[Pairs, Tensor]:
    """Texts near their images on a sphere, a share of them passed on; which pairs are wrong."""
    torch.manual_seed(seed)
    images = F.normalize(torch.randn(count, dim), dim=-1)
    texts = F.normalize(images + 0.35 * torch.randn(count, dim), dim=-1)
    wrong = int(share * count)
    texts[:wrong] = texts[:wrong].roll(1, 0)
    return Pairs(images, texts, torch.arange(count)), torch.arange(count) < wrong


def test_log_ratios_follow_the_formula():
    torch.manual_seed(0)
    images, texts = torch.randn(3, 4), torch.randn(5, 4)
    owners = [0, 0, 1, 2, 2]
    scale = 1.7
    found = log_ratios(
        Pairs(images, texts, torch.tensor(owners)),
        Pairs(images, texts, torch.tensor(owners)),
        torch.arange(3),
        inner,
        torch.tensor([scale], dtype=torch.float64),
    )[0]
    s = [[scale * float(image @ text) for text in texts] for image in images]
    for j, i in enumerate(owners):
        by_image = [s[i][k] for k in range(5) if owners[k] != i or k == j]
        by_text = [s[k][j] for k in range(3)]
        mean = sum(math.log(sum(map(math.exp, part)) / len(part)) for part in (by_image, by_text)) / 2
        assert found[j].item() == pytest.approx(s[i][j] - mean, abs=1e-5)


@pytest.mark.parametrize("share", [0.3, *(pytest.param(share, marks=pytest.mark.slow) for share in (0.0, 0.1, 0.5))])
def test_the_share_of_wrong_pairs_is_found(share):
    points, wrong = noisy_pairs(share)
    reading = read_noise(points, inner)
    assert reading.share == pytest.approx(share, abs=0.035)
    assert reading.interval[0] - 0.01 <= share <= reading.interval[1] + 0.01
    scale = torch.tensor([reading.scale], dtype=torch.float64)
    right = reading.right(log_ratios(points, points, torch.arange(len(wrong)), inner, scale)[0])
    assert right.mean().item() == pytest.approx(1 - share, abs=0.035)
    if share:
        assert auroc(right.numpy(), wrong.numpy()) > 0.95


@pytest.mark.slow
def test_noise_lowers_the_temperature_that_calls_all_pairs_right_alone():
    clean, noisy = (read_noise(noisy_pairs(share)[0], inner) for share in (0.0, 0.4))
    assert noisy.scale_as_clean < 0.6 * clean.scale_as_clean
    assert noisy.scale == pytest.approx(clean.scale, rel=0.15)


@pytest.mark.slow
def test_unrelated_pairs_are_all_wrong():
    points, _ = noisy_pairs(1.0)
    assert read_noise(points, inner).interval[1] == 1.0
    assert read_noise(points, inner).share > 0.9


@pytest.mark.slow
def test_the_unit_of_similarity_does_not_matter():
    points, _ = noisy_pairs(0.3)
    plain, stretched = read_noise(points, inner), read_noise(points, lambda a, b: 40 * inner(a, b) - 7)
    assert stretched.share == pytest.approx(plain.share, abs=0.005)
    assert stretched.scale == pytest.approx(plain.scale / 40, rel=1e-3)


def test_equal_texts_tell_nothing_and_break_nothing():
    points, _ = noisy_pairs(0.0, count=50)
    same = Pairs(points.images, points.texts[:1].expand(50, -1), torch.arange(50))
    reading = read_noise(same, inner)
    assert 0 <= reading.share <= 1
    assert math.isfinite(reading.scale)


def test_some_doubt_is_left_where_no_noise_was_read():
    right = NoiseEstimate(0.0, (0.0, 0.0), 1.0, 1.0).right(torch.tensor([-20.0, 0.0, 20.0]))
    assert right[0] < 0.01 < right[1] < right[2] <= 1
    assert torch.isfinite(NoiseEstimate(1.0, (1.0, 1.0), 1.0, 1.0).right(torch.tensor([5.0]))).all()


def test_one_image_is_one_sentence():
    with pytest.raises(UserError, match="only 1 image"):
        read_noise(Pairs(torch.ones(1, 2), torch.ones(1, 2), torch.zeros(1, dtype=torch.long)), inner)


def test_judges_that_disagree_widen_the_interval():
    alone = NoiseEstimate(0.3, (0.25, 0.37), 1.0, 1.0)
    share, interval = pooled([alone, alone], [10, 10])
    assert (share, *interval) == pytest.approx((0.3, 0.25, 0.37))
    other = NoiseEstimate(0.4, (0.35, 0.47), 1.0, 1.0)
    share, interval = pooled([alone, other], [10, 30])
    mean = (0.3 + 3 * 0.4) / 4
    variance = 2 * ((1 / 4) ** 2 * (0.3 - mean) ** 2 + (3 / 4) ** 2 * (0.4 - mean) ** 2)
    assert share == pytest.approx(mean)
    assert interval[0] == pytest.approx(mean - math.sqrt(0.05**2 + 1.96**2 * variance))
    assert interval[1] == pytest.approx(mean + math.sqrt(0.07**2 + 1.96**2 * variance))
    assert pooled([alone, other], [1, 0]) == (0.3, pytest.approx(alone.interval))  # a judge that knows nothing


def test_the_pooled_interval_stays_between_nothing_and_all():
    ends = [NoiseEstimate(0.0, (0.0, 0.02), 1.0, 1.0), NoiseEstimate(0.2, (0.1, 0.3), 1.0, 1.0)]
    assert pooled(ends, [1, 1])[1][0] == 0.0
