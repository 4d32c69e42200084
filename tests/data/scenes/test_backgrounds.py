"""Backgrounds: quiet, never flat, the same for a seed, and no hiding place for any colour."""

from itertools import combinations, product

import pytest
import torch
from torch import Tensor

from equipoise.data.scenes.language.vocabulary import BACKGROUNDS, COLOURS, UNSEEN_BACKGROUNDS
from equipoise.data.scenes.rendering.backgrounds import PATTERNS, paint, uniform
from equipoise.data.scenes.scene import Background
from equipoise.data.scenes.world import MUTED

PAIR = (MUTED[0], MUTED[2])
CPU = torch.device("cpu")


def shown(kind: str, seeds: range, size: int = 64) -> Tensor:
    """Colours in [0, 1]: [n, 3, size, size]."""
    return (paint([Background(kind, PAIR, seed) for seed in seeds], size, CPU) - 0.5) / 255


def test_every_kind_is_drawn() -> None:
    assert set(PATTERNS) == {*BACKGROUNDS, *UNSEEN_BACKGROUNDS}


@pytest.mark.parametrize("kind", sorted(PATTERNS))
def test_never_flat_and_between_its_two_colours(kind: str) -> None:
    images = shown(kind, range(40))
    assert (images.flatten(2).std(dim=2).amax(dim=1) > 0.01).all()
    low, high = torch.tensor(PAIR).amin(dim=0), torch.tensor(PAIR).amax(dim=0)
    assert (images >= low[:, None, None] - 1e-4).all()
    assert (images <= high[:, None, None] + 1e-4).all()


@pytest.mark.parametrize("kind", sorted(PATTERNS))
def test_a_seed_fixes_the_look_in_any_batch(kind: str) -> None:
    together = shown(kind, range(9), 33)
    assert torch.equal(together[4:5], shown(kind, range(4, 5), 33))
    assert len({image.numpy().tobytes() for image in together}) == 9


@pytest.mark.parametrize("kind", sorted(PATTERNS))
def test_looks_the_same_at_another_resolution(kind: str) -> None:
    small, large = shown(kind, range(10), 48), shown(kind, range(10), 192)
    scaled = torch.nn.functional.avg_pool2d(large, 4)
    assert (small - scaled).abs().mean() < 0.0025
    assert (small - scaled).abs().max() < 0.05


def test_kinds_differ() -> None:
    images = {kind: shown(kind, range(1)) for kind in PATTERNS}
    assert all((images[a] - images[b]).abs().mean() > 0.005 for a, b in combinations(images, 2))


def test_no_colour_hides() -> None:
    for muted, (_, colour) in product(MUTED, COLOURS.values()):
        assert max(abs(m - c) for m, c in zip(muted, colour, strict=True)) > 0.08


def test_dice_are_uniform_and_independent() -> None:
    numbers = uniform(torch.arange(500), 200).double()
    assert numbers.min() >= 0
    assert numbers.max() < 1
    assert numbers.mean() == pytest.approx(0.5, abs=0.005)
    assert numbers.var() == pytest.approx(1 / 12, abs=0.002)
    between_seeds = torch.corrcoef(numbers)
    assert (between_seeds - torch.eye(500)).abs().max() < 0.4
    assert (torch.corrcoef(numbers.T) - torch.eye(200)).abs().max() < 0.25
