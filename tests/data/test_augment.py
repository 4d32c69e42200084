"""Augmentation beside torchvision's, picture by picture; the same whoever makes the batch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from equipoise.config import Loaded, load_run
from equipoise.data.augment import CHANCES, WIDTHS, Augment, Draws, blended, gaussian, hue_turned, luminance
from equipoise.data.batches import Batches
from equipoise.data.scenes import Scenes
from equipoise.data.source import IMAGE_VIEW2
from equipoise.data.tokenizer import CaptionTokenizer
from equipoise.types import UserError

MOCO = Augment(flip=0.5, jitter=0.8, grey=0.2, blur=0.5)


@pytest.fixture(scope="module")
def peer(open_clip: Any) -> Any:
    """torchvision, which comes with open_clip."""
    from torchvision.transforms.v2 import functional

    return functional


@pytest.fixture
def pictures() -> Tensor:
    made = torch.rand(5, 3, 17, 22, generator=torch.Generator().manual_seed(1))
    made[0] = made[0, :1]  # grey
    made[1] = (made[1] > 0.5).float()  # pure colours, two channels equal in many places
    made[2] = 0.3  # flat
    return made


def row(**chances: float) -> Tensor:
    """The numbers of one picture; what is not named never happens."""
    names = ("flip", "jitter", "grey", "blur", "width", "brightness", "contrast", "saturation", "hue")
    known = dict.fromkeys(names, 0.999) | chances
    return torch.tensor([known[name] for name in names], dtype=torch.double)


@pytest.mark.slow
@pytest.mark.parametrize("turn", [-0.5, -0.1, 0.03, 0.25, 0.5])
def test_hues_turn_as_torchvision_turns_them(peer: Any, pictures: Tensor, turn: float) -> None:
    ours = hue_turned(pictures, torch.full((5,), turn))
    torch.testing.assert_close(ours, peer.adjust_hue(pictures, turn), atol=2e-6, rtol=0)


@pytest.mark.parametrize("factor", [0.0, 0.6, 1.0, 1.4])
def test_brightness_contrast_and_saturation_as_torchvision(peer: Any, pictures: Tensor, factor: float) -> None:
    factors = torch.full((5,), factor)
    mean = luminance(pictures).mean((1, 2, 3), keepdim=True)
    for around, theirs in (
        (torch.zeros(()), peer.adjust_brightness),
        (mean, peer.adjust_contrast),
        (luminance(pictures), peer.adjust_saturation),
    ):
        torch.testing.assert_close(blended(pictures, around, factors), theirs(pictures, factor), atol=1e-6, rtol=0)


@pytest.mark.parametrize("width", [0.1, 0.7, 2.0])
def test_blurs_as_torchvision_does(peer: Any, pictures: Tensor, width: float) -> None:
    theirs = peer.gaussian_blur(pictures, [13, 13], [width, width])
    torch.testing.assert_close(gaussian(pictures, torch.full((5,), width)), theirs, atol=1e-6, rtol=0)


def test_each_picture_has_a_blur_of_its_own(pictures: Tensor) -> None:
    widths = torch.tensor([0.1, 0.5, 1.0, 1.5, 2.0])
    each = [gaussian(one[None], width[None])[0] for one, width in zip(pictures, widths, strict=True)]
    torch.testing.assert_close(gaussian(pictures, widths), torch.stack(each), atol=1e-6, rtol=0)
    assert gaussian(torch.rand(2, 3, 4, 1), torch.ones(2)).shape == (2, 3, 4, 1)  # narrower than a blur


def test_a_row_decides_what_happens_to_its_picture(peer: Any) -> None:
    rows = [row(), row(flip=0.1), row(grey=0.1), row(blur=0.2, width=0.5), row(jitter=0.7, brightness=1.0, hue=0.5)]
    rows[4][6:8] = 0.5  # neither contrast nor saturation
    pictures = torch.rand(1, 3, 16, 16).expand(5, 3, 16, 16)
    same, flipped, grey, blurred, brighter = MOCO(pictures, Draws((0, 1, 2, 3), torch.stack(rows)))
    one = pictures[0]
    assert torch.equal(same, one)
    assert torch.equal(flipped, one.flip(-1))
    torch.testing.assert_close(grey, peer.rgb_to_grayscale(one, 3))
    middle = sum(WIDTHS) / 2
    torch.testing.assert_close(blurred, peer.gaussian_blur(one, [13, 13], [middle, middle]), atol=1e-6, rtol=0)
    torch.testing.assert_close(brighter, peer.adjust_brightness(one, 1.4), atol=1e-5, rtol=0)


@given(order=st.permutations(range(4)), seed=st.integers(0, 2**32))
def test_jitter_in_any_order_equals_torchvision_in_that_order(peer: Any, order: list[int], seed: int) -> None:
    drawn = torch.Generator().manual_seed(seed)
    picture, numbers = torch.rand(1, 3, 9, 9, generator=drawn), torch.rand(4, generator=drawn, dtype=torch.double)
    chances = row(jitter=0.0)
    chances[5:] = numbers
    theirs = picture
    changes = peer.adjust_brightness, peer.adjust_contrast, peer.adjust_saturation, peer.adjust_hue
    for number in order:
        turn = float(2 * numbers[number] - 1)
        theirs = changes[number](theirs, 0.1 * turn if number == 3 else 1 + 0.4 * turn)
    ours = Augment(jitter=1.0)(picture, Draws(tuple(order), chances[None]))
    torch.testing.assert_close(ours, theirs, atol=2e-5, rtol=0)


def test_chances_are_what_they_are_called() -> None:
    draws = Draws.of(4000, torch.Generator().manual_seed(0))
    assert draws.each.shape == (4000, CHANCES)
    picture = torch.tensor([[[0.9, 0.1]], [[0.2, 0.4]], [[0.1, 0.6]]]).expand(4000, 3, 1, 2)
    flipped = Augment(flip=0.3)(picture, draws)[:, 0, 0, 0] == 0.1
    assert flipped.float().mean().item() == pytest.approx(0.3, abs=0.03)
    grey = Augment(grey=0.2)(picture, draws)
    assert (grey[:, 0] == grey[:, 2]).all((1, 2)).float().mean().item() == pytest.approx(0.2, abs=0.03)


def test_parts_of_a_batch_are_augmented_as_the_whole(tiny: Loaded, scenes: Scenes, tokens: CaptionTokenizer) -> None:
    def make(**options: object) -> Batches:
        settings = {"batch_size": 16, "seed": 3, "views": (IMAGE_VIEW2,), "augment": MOCO} | options
        return Batches(scenes, tokens, tiny.run.preprocess, **settings)  # type: ignore[arg-type]

    whole, plain = make().batch(2), make(augment=Augment()).batch(2)
    halves = [make(share=(part, 2)).batch(2) for part in (0, 1)]
    for read in (lambda batch: batch.images, lambda batch: batch.side[IMAGE_VIEW2]):
        torch.testing.assert_close(torch.cat([read(half) for half in halves]), read(whole), atol=1e-6, rtol=1e-6)
        assert not torch.equal(read(whole), read(plain))
    assert torch.equal(whole.images, make().batch(2).images)
    assert not torch.equal(whole.images, make(seed=4).batch(2).images)
    mirrored = make(augment=Augment(flip=0.5)).batch(2)
    first = (mirrored.images - plain.images).abs().amax((1, 2, 3)) > 1e-3
    second = (mirrored.side[IMAGE_VIEW2] - plain.side[IMAGE_VIEW2]).abs().amax((1, 2, 3)) > 1e-3
    assert not torch.equal(first, second)  # two views, each by chances of its own
    for batch in (whole, plain):
        low, high = (tiny.run.preprocess.normalised(torch.full((1, 3, 1, 1), x, dtype=torch.uint8)) for x in (0, 255))
        assert (batch.images >= low - 1e-5).all()
        assert (batch.images <= high + 1e-5).all()


def test_without_it_a_batch_has_the_bits_it_had(tiny: Loaded, scenes: Scenes, tokens: CaptionTokenizer) -> None:
    still = replace(MOCO, flip=0.0, jitter=0.0, grey=0.0, blur=0.0)
    one = Batches(scenes, tokens, tiny.run.preprocess, batch_size=8, seed=0).batch(0)
    assert torch.equal(
        one.images, Batches(scenes, tokens, tiny.run.preprocess, batch_size=8, seed=0, augment=still).batch(0).images
    )
    assert not still.wanted
    assert still.cites == ()


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("augment.flip=1.5", r"augment: flip must be from 0 to 1.0, not 1.5"),
        ("augment.hue=0.6", r"augment: hue must be from 0 to 0.5, not 0.6"),
        ("augment.contrast=-1", r"augment: contrast must be at least 0, not -1"),
    ],
)
def test_bad_settings_are_refused(setting: str, told: str) -> None:
    with pytest.raises(UserError, match=told):
        load_run("demo", [setting])


def test_features_cannot_be_augmented(tokens: CaptionTokenizer, tiny: Loaded) -> None:
    class Features:
        def __len__(self) -> int:
            return 8

        def pair(self, index: int) -> None: ...

        def images(self, *_: object) -> None: ...

        def batch(self, *_: object) -> None: ...

    with pytest.raises(UserError, match="augment changes pictures"):
        Batches(Features(), tokens, tiny.run.preprocess, batch_size=4, seed=0, augment=MOCO)  # type: ignore[arg-type]
