"""Matches of images and texts that lost their partners, on Gaussian points whose log r is known exactly."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from equipoise.analysis.rematching import partner_share, rematched

DIM = 8


def gaussian(count: int, noise: float, there: float) -> tuple[Tensor, Tensor]:
    """log r of all images with all texts, and whether the text of each image, of the same number, is there."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(count, DIM, generator=generator, dtype=torch.float64)
    texts = images + noise * torch.randn(count, DIM, generator=generator, dtype=torch.float64)
    known = torch.rand(count, generator=generator) < there
    strangers = torch.randn(count, DIM, generator=generator, dtype=torch.float64) * math.sqrt(1 + noise**2)
    texts = torch.where(known[:, None], texts, strangers)
    matched = -((texts[None] - images[:, None]) ** 2).sum(-1) / (2 * noise**2) - DIM * math.log(noise)
    alone = -(texts**2).sum(-1) / (2 * (1 + noise**2)) - DIM / 2 * math.log(1 + noise**2)
    return matched - alone, known


@pytest.mark.parametrize(("noise", "least_found"), [(0.2, 0.9), (0.3, 0.75), (0.5, 0.2)])
def test_probabilities_are_as_often_right_as_they_say(noise, least_found):
    ratios, known = gaussian(1000, noise, 0.5)
    found = rematched(lambda some: ratios[some], len(ratios), 0.5)
    right = torch.tensor([one.image == one.text and bool(known[one.image]) for one in found]).double().mean()
    said = torch.tensor([one.probability for one in found], dtype=torch.float64).mean()
    assert len(found) > least_found * int(known.sum())
    assert float(right) == pytest.approx(float(said), abs=0.07)


def test_next_to_nothing_is_matched_where_no_partner_is_there():
    ratios, _ = gaussian(600, 0.3, 0.0)
    assert len(rematched(lambda some: ratios[some], len(ratios), 0.5)) <= 3


def test_every_text_and_image_is_matched_once():
    ratios, _ = gaussian(500, 0.6, 0.5)
    found = rematched(lambda some: ratios[some], len(ratios), 0.0)
    assert len({one.image for one in found}) == len({one.text for one in found}) == len(found)


def test_tiles_change_nothing():
    ratios, _ = gaussian(300, 0.3, 0.5)
    whole, parts = (rematched(lambda some: ratios[some], len(ratios), 0.1, tile) for tile in (1000, 7))
    assert [one[:2] for one in whole] == [one[:2] for one in parts]
    assert [one.probability for one in whole] == pytest.approx([one.probability for one in parts])


def test_against_the_posterior_written_out():
    ratios, _ = gaussian(40, 0.3, 0.5)
    by_image, by_text = _written_out(ratios), _written_out(ratios.T).T
    probability = torch.minimum(by_image, by_text)
    found = rematched(lambda some: ratios[some], len(ratios), 0.0)
    for one in found:
        assert one.probability == pytest.approx(float(probability[one.image, one.text]), rel=1e-9)
        assert ratios[one.image].argmax() == one.text
        assert ratios[:, one.text].argmax() == one.image


def _written_out(ratios: Tensor) -> Tensor:
    r = ratios.exp() / ratios.shape[1]
    share = partner_share(r.sum(1).log())
    return share * r / (1 - share + share * r.sum(1, keepdim=True))


@pytest.mark.parametrize("there", [0.2, 0.5, 0.9])
def test_the_share_of_partners_is_read(there):
    ratios, known = gaussian(1500, 0.2, there)
    share = partner_share(ratios.logsumexp(1) - math.log(len(ratios)))
    assert share == pytest.approx(float(known.double().mean()), abs=0.05)
