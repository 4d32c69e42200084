"""Alignment against uniformity, read aloud from Eq. 1, and what the paper says of it."""

from __future__ import annotations

import math

import pytest
import torch

from equipoise.analysis import equilibrium as module
from equipoise.analysis.equilibrium import averaged, balance, draw_equilibrium, equilibrium, log_parts, ring
from equipoise.analysis.sampled_pairs import SampledPoints
from equipoise.spaces import Euclidean, ProductSphere, Space, Sphere
from equipoise.types import UserError

SPACES = (Sphere(8), ProductSphere(2, 4), Euclidean(8))
SCALES = (0.5, 2.0, 30.0)


def points(space: Space, count: int, noise: float = 1.0) -> SampledPoints:
    """Pairs that resemble each other the more, the less noise there is."""
    chance = torch.Generator().manual_seed(3)
    base, *rest = (torch.randn(count, 8, generator=chance).double() for _ in range(3))
    return SampledPoints(*(space.project(base + noise * one) for one in rest))


def parts_aloud(pairs: SampledPoints, space: Space, scale: float) -> tuple[list[float], list[float]]:
    numerators, denominators = [], []
    count = len(pairs.images)
    s = [[float(space.similarity(u[None], v[None])) for v in pairs.texts] for u in pairs.images]
    for i in range(count):
        numerators.append(math.exp(scale * s[i][i]))
        others = [j for j in range(count) if j != i]
        denominators.append(
            sum(math.exp(scale * s[i][j]) for j in others) + sum(math.exp(scale * s[j][i]) for j in others)
        )
    return numerators, denominators


@pytest.mark.parametrize("space", SPACES, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("tile", [3, 512])
def test_ratio_equals_equation_1_read_aloud(space, tile, monkeypatch):
    monkeypatch.setattr(module, "TILE", tile)
    pairs = points(space, 7)
    numerator, denominator = log_parts(*pairs, space, SCALES)
    for number, scale in enumerate(SCALES):
        above, below = parts_aloud(pairs, space, scale)
        ratios = [a / b for a, b in zip(above, below, strict=True)]
        expected = {
            "ratio": sum(ratios) / 7,
            "parts": sum(above) / sum(below),
            "log": math.exp(sum(map(math.log, ratios)) / 7),
        }
        for average, value in expected.items():
            got = float(averaged(numerator, denominator, average)[number].exp())
            assert got == pytest.approx(value, rel=1e-10), average


@pytest.mark.parametrize("average", module.AVERAGES)
def test_without_temperature_only_the_number_of_pairs_counts(average):
    found = equilibrium(points(Sphere(8), 6), Sphere(8), (1e-9, 1.0), 6, 0.0, average, seed=0)
    assert math.exp(found.log_ratios[0]) == pytest.approx(1 / (2 * 5), rel=1e-6)


def test_equal_points_never_balance():
    same = torch.ones(5, 8).double() / math.sqrt(8)
    found = equilibrium(SampledPoints(same, same), Sphere(8), (1.0, 100.0, 1000.0), 5, 0.0, "ratio", seed=0)
    assert found.log_ratios == pytest.approx([-math.log(8)] * 3)
    assert found.balance is None


def test_a_balance_below_the_sweep_is_told_from_none():
    pairs = SampledPoints(torch.eye(2, 8).double(), torch.eye(2, 8).double())
    late = equilibrium(pairs, Sphere(8), (1.0, 10.0, 100.0), 2, 0.0, "log", 0)  # it balances at ln 2
    assert (late.balance, late.below) == (None, True)
    whole = equilibrium(pairs, Sphere(8), (0.1, 0.6, 0.8, 10.0), 2, 0.0, "log", 0)
    assert not whole.below
    assert whole.balance == pytest.approx(math.log(2), rel=0.02)


def test_a_logit_scale_outside_the_sweep_is_drawn_with_room(recwarn):
    pairs, scales = SampledPoints(torch.eye(2, 8).double(), torch.eye(2, 8).double()), (1e-3, 1e-2)
    never = equilibrium(pairs, Sphere(8), scales, 2, 0.0, "log", 0)
    figure = draw_equilibrium([never], [never], scales, 3.0, "nowhere")
    figure.canvas.draw()
    assert figure.axes[0].get_xlim()[1] >= 3
    assert not recwarn.list


@pytest.mark.parametrize("learned", [1e-3, 3.0, 1e4])
def test_both_panels_show_the_same_logit_scales_with_all_that_is_marked(learned):
    pairs, scales = points(Sphere(8), 64), torch.logspace(-1, 3, 50).tolist()
    by_size = [equilibrium(pairs, Sphere(8), scales, size, 0.0, "ratio", 0) for size in (4, 64)]
    by_noise = [equilibrium(pairs, Sphere(8), scales, 4, share, "ratio", 0) for share in (0.0, 0.5)]
    left, right = draw_equilibrium(by_size, by_noise, scales, learned, "somewhere").axes
    low, high = left.get_xlim()
    assert right.get_xlim() == (low, high)
    balances = [one.balance for one in (*by_size, *by_noise)]
    assert None not in balances
    assert low <= min(learned, *balances) <= max(learned, *balances) <= high


@pytest.mark.parametrize("space", [Sphere(256), ProductSphere(4, 64), ProductSphere(4, 64, distance="geodesic")])
def test_the_sweep_covers_the_same_ground_in_every_space(space):
    """A product of 64 spheres balances far below 1, where a sweep from 1 on is blind."""
    chance = torch.Generator().manual_seed(3)
    base, *rest = (torch.randn(64, 256, generator=chance).double() for _ in range(3))
    pairs = SampledPoints(*(space.project(base + 0.1 * one) for one in rest))
    scales = (torch.logspace(-2, 2, 60).double() / space.spread).tolist()
    found = equilibrium(pairs, space, scales, 64, 0.0, "ratio", 0)
    assert found.balance is not None
    assert 0.1 < found.balance * space.spread < 3
    assert (found.balance < 1) == isinstance(space, ProductSphere)


def test_two_pairs_balance_where_a_hand_puts_it():
    """Own similarity 1, all others 0: e^τ / 2 = 1 at τ = ln 2."""
    pairs = SampledPoints(torch.eye(2, 8).double(), torch.eye(2, 8).double())
    scales = torch.logspace(-1, 1, 400).tolist()
    assert equilibrium(pairs, Sphere(8), scales, 2, 0.0, "log", 0).balance == pytest.approx(math.log(2), rel=1e-4)


def test_larger_batches_and_more_noise_need_a_higher_temperature():
    pairs, scales = points(Sphere(8), 256, noise=0.2), torch.logspace(0, 3, 40).tolist()

    def at(size: int, shuffled: float) -> float:
        found = equilibrium(pairs, Sphere(8), scales, size, shuffled, "ratio", 0).balance
        assert found is not None
        return found

    sizes = [at(size, 0.0) for size in (8, 32, 128)]
    noises = [at(32, share) for share in (0.0, 0.3, 0.6)]
    assert sizes == sorted(sizes)
    assert noises == sorted(noises)
    assert sizes[0] < sizes[-1]
    assert noises[0] < noises[-1]


@pytest.mark.parametrize(
    ("count", "share", "moved"), [(10, 0.0, 0), (10, 0.3, 3), (10, 1.0, 10), (2, 1.0, 2), (9, 0.1, 0)]
)
def test_a_ring_moves_just_the_share(count, share, moved):
    order = ring(count, share, seed=4)
    assert sorted(order.tolist()) == list(range(count))
    assert int((order != torch.arange(count)).sum()) == moved


def test_balance_is_the_first_rise_to_one():
    assert balance([1, 10, 100], [-1.0, 1.0, 3.0]) == pytest.approx(math.sqrt(10))
    assert balance([1, 10, 100], [1.0, -1.0, -3.0]) is None
    assert balance([1, 10, 100], [-3.0, -2.0, -1.0]) is None


@pytest.mark.parametrize(
    ("size", "shuffled", "average", "sentence"),
    [
        (1, 0, "ratio", "a batch of 1 needs"),
        (9, 0, "ratio", "a batch of 9"),
        (4, 2, "ratio", "200%"),
        (4, 0, "x", "'x'"),
    ],
)
def test_nonsense_is_refused(size, shuffled, average, sentence):
    with pytest.raises(UserError, match=sentence):
        equilibrium(points(Sphere(8), 8), Sphere(8), SCALES, size, shuffled, average, 0)
