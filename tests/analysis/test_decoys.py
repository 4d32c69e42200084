"""What is wrong among the captions that look right, told by captions that surely are wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from equipoise.analysis.decoys import Decoys, compared_with, decoys_of, exchanged, mean_of, still_wrong
from equipoise.analysis.noise import NoiseEstimate, Pairs, log_ratios, probability_right
from equipoise.analysis.siblings import read_siblings, right_with_siblings
from equipoise.workflows.clean.probability import Evidence

WIDTH = 12


def cosine(images: Tensor, texts: Tensor) -> Tensor:
    return torch.nn.functional.normalize(images, dim=-1) @ torch.nn.functional.normalize(texts, dim=-1).T


def pairs(images: int, each: int, wrong: float, spread: float, seed: int = 0) -> tuple[Pairs, np.ndarray]:
    """Points whose texts lie near their image, and which of them were passed on, image by image."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(images, WIDTH, generator=generator)
    shown = centres + spread * torch.randn(images, WIDTH, generator=generator)
    source = torch.arange(images)
    moved = torch.randperm(images, generator=generator)[: int(wrong * images)]
    source[moved] = moved.roll(1)
    owners = torch.arange(images).repeat_interleave(each)
    texts = centres[source[owners]] + spread * torch.randn(images * each, WIDTH, generator=generator)
    return Pairs(shown, texts, owners), (source[owners] != owners).numpy()


def test_log_r_of_decoys_is_that_of_their_pairs():
    points, _ = pairs(30, 2, 0.0, 0.5)
    scale = 7.0
    found = decoys_of(points, cosine, scale, 1000, seed=3)
    owner = exchanged(points, 1.0, 3).image_of_text.tolist()
    assert all(new != old for new, old in zip(owner, points.image_of_text.tolist(), strict=True))
    assert found.owners.tolist() == owner, "no image is left out of so few"
    block = cosine(points.images, points.texts).double()
    for text, image in enumerate(owner):
        logit = scale * block[image, text]
        of_image = [scale * block[image, other] for other in range(60) if owner[other] != image]
        of_text = [scale * block[other, text] for other in range(30) if other != image]
        means = [torch.stack([*some, logit]).logsumexp(0) - math.log(len(some) + 1) for some in (of_image, of_text)]
        assert found.log_ratio[text] == pytest.approx(float(logit - sum(means) / 2), abs=1e-6)


@pytest.mark.parametrize("each", [1, 2])
def test_a_sample_holds_no_more_of_those_passed_on_than_all_do(each: int):
    """By one seed both once took the same images, where each had one caption: a check of 20% was one of 78%."""
    points, _ = pairs(8000, each, 0.0, 0.5)
    wrong = exchanged(points, 0.2, 0)
    moved = wrong.image_of_text != points.image_of_text
    assert moved.double().mean() == pytest.approx(0.2, abs=1e-3)
    known = Pairs(
        torch.arange(8000.0)[:, None], torch.arange(8000.0)[points.image_of_text][:, None], wrong.image_of_text
    )
    some, owners = known.sample(2048, 0)
    assert (some.texts[:, 0] != owners[some.image_of_text]).double().mean() == pytest.approx(0.2, abs=0.03)


def test_of_many_images_some_are_taken_with_all_their_captions():
    points, _ = pairs(200, 3, 0.0, 0.5)
    found = decoys_of(points, cosine, 5.0, 64, seed=1, images=40)
    assert np.bincount(found.owners).tolist() == [3] * 40


def test_the_count_above_a_threshold_is_that_of_the_decoys():
    right = np.array([0.05, 0.2, 0.5, 0.5, 0.9], dtype=np.float32)
    grid = [0.0, 0.2, 0.5, 0.51, 1.0]
    expected = [0.4 * 50 * float((right >= np.float32(step)).mean()) for step in grid]
    assert still_wrong(right, grid, 0.4, 50) == pytest.approx(expected)


def test_judges_are_averaged():
    several = [Decoys(np.array([1.0, 2.0]), np.array([0, 1])), Decoys(np.array([3.0, 0.0]), np.array([0, 1]))]
    assert mean_of(several).log_ratio.tolist() == [2.0, 1.0]


@pytest.mark.parametrize("scale", [5.0, 10.0])
@pytest.mark.parametrize("per", ["auto", "caption", "image"])
def test_what_is_left_is_told_also_where_probabilities_are_too_sure(per: str, scale: float):
    points, wrong = pairs(1500, 2, 0.4, 0.9)
    pool, place = compared_with(points, 1500, 0)
    ratios = log_ratios(points, pool, place, cosine, torch.tensor([scale], dtype=torch.float64))[0].numpy()
    reading = NoiseEstimate(0.4, (0.4, 0.4), scale, scale)
    owners = points.image_of_text.numpy()
    decoys = [decoys_of(points, cosine, scale, 1500, seed=5)]
    evidence = Evidence(ratios, owners, np.zeros(1500, dtype=np.int64), [reading], [0.9], [True], [1500], None, decoys)
    right = evidence.right(per)
    told = evidence.still_wrong(per, [0.3, 0.5], evidence)
    assert told is not None
    truth = [int(wrong[right >= threshold].sum()) for threshold in (0.3, 0.5)]
    assert min(truth) > 100
    assert told == pytest.approx(truth, rel=0.15)
    if per == "auto" and scale == 5:  # what siblings share, such as a picture that is hard to place, counts twice
        assert (1 - right[right >= 0.5]).sum() < truth[1] / 4


def test_judges_without_decoys_say_nothing():
    reading = NoiseEstimate(0.4, (0.4, 0.4), 1.0, 1.0)
    evidence = Evidence(np.zeros(2), np.arange(2), np.zeros(2, dtype=np.int64), [reading], [0.9], [True], [2])
    assert evidence.still_wrong("caption", [0.5], evidence) is None


def test_siblings_are_read_once_and_asked_of_others():
    rng = np.random.default_rng(0)
    owners = np.repeat(np.arange(400), 3)
    wrong = np.repeat(rng.random(400) < 0.4, 3)
    ratios = rng.normal(np.where(wrong, -2.0, 2.0), 1.5)
    read = read_siblings(ratios, owners, 0.4)
    assert np.array_equal(read.right(ratios, owners), right_with_siblings(ratios, owners, 0.4))
    alone = read.right(np.array([0.0, 0.0]), np.array([0, 1]))
    expected = float(probability_right(torch.zeros(1, dtype=torch.float64), torch.tensor(0.4, dtype=torch.float64)))
    assert alone == pytest.approx([expected] * 2), "without siblings by the share of all"
    with_good, with_bad = (read.right(np.array([0.0, other, other]), np.zeros(3, dtype=int))[0] for other in (5, -5))
    assert with_good > 0.9
    assert with_bad < 0.1
