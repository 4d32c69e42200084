"""Agreement, overlap and pointing of codes against counts by hand, and what tells learned codes from random ones."""

from __future__ import annotations

import pytest
import torch

from equipoise.data.source import Pair
from equipoise.evaluation.codes import (
    METRICS,
    Codes,
    _named_once,
    agreement,
    agreement_by_code,
    codes_of_names,
    overlap,
    patches_inside,
    random_book,
    used,
)
from equipoise.evaluation.encoding import Encoded
from equipoise.evaluation.evaluate import evaluate
from equipoise.evaluation.settings import Evaluation

MAKE = torch.Generator().manual_seed(5)
IMAGES, TEXTS = (torch.randn(40, 7, generator=MAKE).double() for _ in range(2))


def test_agreement_counts_pairs_that_are_in_both_tops():
    for code in range(7):
        tops = [set(sorted(range(40), key=lambda i, s=side: -float(s[i, code]))[:4]) for side in (IMAGES, TEXTS)]
        assert float(agreement_by_code(IMAGES, TEXTS)[code]) == len(tops[0] & tops[1]) / 4
    chosen = torch.tensor([1, 4])
    mean = float(agreement_by_code(IMAGES, TEXTS)[chosen].mean())
    assert agreement(IMAGES, TEXTS, chosen) == (mean, 0.1)
    assert agreement(IMAGES, IMAGES, chosen) == (1.0, 0.1)
    drawn = [torch.randn(1000, 300, generator=MAKE) for _ in range(2)]
    assert agreement(*drawn, torch.arange(300))[0] == pytest.approx(0.1, abs=0.005)  # chance is chance


def test_overlap_is_that_of_sets():
    first, second = IMAGES > 0.3, TEXTS > 0.3
    sets = [[set(row.nonzero()[:, 0].tolist()) for row in side] for side in (first, second)]

    def mean(shift: int) -> float:
        found = [(sets[0][i], sets[1][(i - shift) % 40]) for i in range(40)]
        return sum(len(a & b) / len(a | b) if a | b else 0.0 for a, b in found) / 40

    own, others = overlap(first, second)
    assert own == pytest.approx(mean(0))
    assert others == pytest.approx((mean(1) + mean(2) + mean(3)) / 3)
    assert overlap(first[:2], first[:2])[0] == 1.0


def test_codes_that_are_hardly_used_do_not_count():
    shares = torch.tensor([[0.5, 0.4999, 1e-4], [0.5, 0.4999, 1e-4]])
    assert used(shares, shares).tolist() == [0, 1]


def test_the_code_of_a_name_stands_out_among_names():
    """Code 0 has the largest share everywhere, and so says nothing."""
    shares = torch.tensor([[0.6, 0.3, 0.1, 0.0], [0.6, 0.1, 0.3, 0.0], [0.7, 0.1, 0.1, 0.1]])
    assert codes_of_names(shares).tolist() == [1, 2, 3]


def test_patches_inside_a_box():
    inside = patches_inside((0.5, 0.0, 1.0, 0.4), 4).view(4, 4)
    assert inside.int().tolist() == [[0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 0, 0], [0, 0, 0, 0]]


def test_things_are_asked_for_where_their_shape_is_theirs_alone():
    def pair(*shapes: str) -> Pair:
        boxes = tuple((0.1 * n, 0.0, 0.1 * n + 0.1, 0.1) for n in range(len(shapes)))
        return Pair("k", ("c",), boxes=boxes, truth={"scene": {"things": [{"shape": shape} for shape in shapes]}})

    names = {"fish": 3, "star": 1}
    assert _named_once(pair("fish"), names) == []
    assert [shape for shape, _ in _named_once(pair("fish", "star", "ring"), names)] == ["fish", "star"]
    assert [shape for shape, _ in _named_once(pair("fish", "fish", "star"), names)] == ["star"]
    assert _named_once(pair("ring", "fish"), names)[0][1] == pytest.approx((0.1, 0.0, 0.2, 0.1))


def test_a_model_with_codes_has_all_numbers_and_one_without_has_none(coded, model, scenes):
    found = evaluate(coded, scenes, Evaluation())["codes"]
    assert found.metrics.keys() == found.chance.keys() == METRICS.keys()
    assert "codes" not in evaluate(model, scenes, Evaluation())
    before = torch.get_rng_state()
    again = Codes()(Encoded(coded, scenes, Evaluation()))
    assert again == found  # random codes are the same each time, and draw on nobody's numbers
    assert torch.equal(torch.get_rng_state(), before)


def test_random_codes_are_as_long_and_leave_the_model_alone(coded):
    before = coded.shared.codes.detach().clone()
    other = random_book(coded.shared)
    assert torch.equal(coded.shared.codes, before)
    assert float(other.codes.detach().square().mean().sqrt()) == pytest.approx(
        float(before.square().mean().sqrt()), rel=0.1
    )
    assert not torch.allclose(other.codes, before)


def test_towers_that_read_the_same_agree_and_the_random_ones_less():
    """Learned codes: what both towers see. Two views of one relevance agree, two of nothing do not."""
    seen = torch.randn(200, 30, generator=MAKE)
    views = [seen + 0.5 * torch.randn(200, 30, generator=MAKE) for _ in range(2)]
    noise = [torch.randn(200, 30, generator=MAKE) for _ in range(2)]
    every = torch.arange(30)
    assert agreement(*views, every)[0] > 0.4 > 0.15 > agreement(*noise, every)[0]
