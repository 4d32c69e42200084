"""Pictures: the same in any batch, smooth at any size, every look distinguishable."""

from dataclasses import replace
from itertools import combinations

import pytest
import torch
from torch import Tensor

from equipoise.data.scenes.language.vocabulary import COLOURS, SHAPES, TEXTURES, UNSEEN_TEXTURES
from equipoise.data.scenes.rendering import render as module
from equipoise.data.scenes.rendering.render import render
from equipoise.data.scenes.scene import Background, Scene, Thing
from equipoise.data.scenes.shifts import SHIFTS
from equipoise.data.scenes.world import World, sample_scene

ALL_TEXTURES = (*TEXTURES, *UNSEEN_TEXTURES)
QUIET = Background("gradient", ((0.7, 0.7, 0.7), (0.7, 0.7, 0.7)), 0)
RED = Thing("circle", "red", "solid", "large", 0.5, 0.5, 0.2)


def scene(*things: Thing, background: Background = QUIET) -> Scene:
    return Scene(things, background)


def samples(n: int, shift: str = "none") -> list[Scene]:
    return [sample_scene(World(shift=shift), 0, "train", i) for i in range(n)]


def as_float(images: Tensor) -> Tensor:
    return images.double() / 255


def test_shape_and_type() -> None:
    images = render(samples(3), 20)
    assert images.shape == (3, 3, 20, 20)
    assert images.dtype == torch.uint8
    assert render([], 20).shape == (0, 3, 20, 20)
    assert render([scene()], 20).unique().tolist() == [179]  # 0.7 of 255, no things


@pytest.mark.parametrize("size", [1, 2, 7, 33])
def test_any_size(size: int) -> None:
    assert render(samples(20), size).shape == (20, 3, size, size)


@pytest.mark.parametrize("shift", sorted(SHIFTS))
@pytest.mark.parametrize("size", [32, 57])
def test_a_scene_looks_the_same_in_any_batch(shift: str, size: int) -> None:
    scenes = samples(40, shift)
    together = render(scenes, size)
    alone = torch.cat([render([one], size) for one in scenes])
    assert torch.equal(together, alone)
    assert torch.equal(render(scenes[::-1], size).flip(0), together)


def test_chunks_leave_no_seams(monkeypatch: pytest.MonkeyPatch) -> None:
    scenes = samples(30)
    whole = render(scenes, 24)
    monkeypatch.setitem(module.CHUNK, "cpu", 24 * 24 * 7)
    assert torch.equal(render(scenes, 24), whole)


def test_coverage_of_a_disc_is_its_area() -> None:
    drawn, empty = as_float(render([scene(replace(RED, colour="black")), scene()], 64))[:, 0]
    black = COLOURS["black"][1][0]  # its contour is hardly darker
    assert ((empty - drawn) / (empty - black)).mean() == pytest.approx(torch.pi * RED.radius**2, rel=0.02)


@pytest.mark.parametrize("texture", ALL_TEXTURES)
def test_anti_aliased(texture: str) -> None:
    """A small picture is a large one scaled down, but for a little light along the edges."""
    things = [Thing(shape, "blue", texture, "large", 0.51, 0.48, 0.4, 0.1) for shape in SHAPES]
    scenes = [scene(thing) for thing in things]
    small = as_float(render(scenes, 32))
    fine = torch.nn.functional.avg_pool2d(as_float(render(scenes, 256)), 8)
    assert (small - fine).abs().mean() < 0.006
    assert (small - fine).pow(2).mean().sqrt() < 0.025


def test_edges_move_smoothly() -> None:
    """A shift by a tenth of a pixel changes no pixel by more than a good tenth of the contrast."""
    size = 32
    before, after = as_float(render([scene(RED), scene(replace(RED, x=0.5 + 0.1 / size))], size))
    assert 0 < (before - after).abs().max() < 0.2


def test_every_look_can_be_told_from_every_other() -> None:
    looks = [(shape, texture) for shape in SHAPES for texture in ALL_TEXTURES]
    images = as_float(render([scene(Thing(s, "blue", t, "medium", 0.5, 0.5, 0.145)) for s, t in looks], 64))
    for (i, first), (j, second) in combinations(enumerate(looks), 2):
        differing = ((images[i] - images[j]).abs().amax(dim=0) > 0.1).sum()
        assert differing >= 8, (first, second)


def test_textures_show_at_32_pixels() -> None:
    for shape in SHAPES:
        images = as_float(render([scene(Thing(shape, "red", t, "medium", 0.5, 0.5, 0.145)) for t in ALL_TEXTURES], 32))
        for a, b in combinations(range(len(ALL_TEXTURES)), 2):
            assert (images[a] - images[b]).abs().max() > 0.08, (shape, ALL_TEXTURES[a], ALL_TEXTURES[b])


@pytest.mark.parametrize("colour", sorted(COLOURS))
def test_a_solid_middle_has_the_named_colour(colour: str) -> None:
    image = as_float(render([scene(replace(RED, colour=colour))], 64))[0]
    assert image[:, 32, 32].tolist() == pytest.approx(COLOURS[colour][1], abs=1 / 255)
    tinted = as_float(render([scene(replace(RED, colour=colour, tint=(-0.05, 0.0, 0.01)))], 64))[0]
    assert tinted[0, 32, 32] - image[0, 32, 32] == pytest.approx(-0.05, abs=1 / 128)


@pytest.mark.parametrize("size", [32, 64, 100])
def test_the_box_holds_every_painted_pixel(size: int) -> None:
    single = [Scene((thing,), whole.background) for whole in samples(80) for thing in whole.things]
    drawn, empty = render(single, size), render([replace(one, things=()) for one in single], size)
    for one, painted in zip(single, (drawn != empty).any(dim=1), strict=True):
        rows, columns = painted.nonzero(as_tuple=True)
        x0, y0, x1, y1 = (side * size for side in one.things[0].box)
        assert x0 - 1 < columns.min()
        assert columns.max() < x1
        assert y0 - 1 < rows.min()
        assert rows.max() < y1


def test_an_outline_shows_what_is_behind() -> None:
    outlined = replace(RED, texture="outlined", radius=0.4)
    drawn, empty = render([scene(outlined), scene()], 64)
    assert torch.equal(drawn[:, 28:36, 28:36], empty[:, 28:36, 28:36])
    assert not torch.equal(drawn, empty)


def test_later_things_lie_on_top() -> None:
    blue = replace(RED, colour="blue", radius=0.1)
    on_top, beneath = as_float(render([scene(RED, blue), scene(blue, RED)], 64))[:, :, 32, 32]
    assert on_top.tolist() == pytest.approx(COLOURS["blue"][1], abs=0.01)
    assert beneath.tolist() == pytest.approx(COLOURS["red"][1], abs=0.01)


def test_angle_turns_clockwise() -> None:
    """y points downwards, so a quarter turn takes an arrow from right to down."""
    arrow = replace(RED, shape="arrow", radius=0.4)
    right, down = render([scene(arrow), scene(replace(arrow, angle=torch.pi / 2))], 64)
    difference = (torch.rot90(right, -1, (1, 2)).int() - down.int()).abs()
    assert difference.max() <= 2


@pytest.mark.parametrize("where", [(-0.1, 0.5), (1.05, 1.05), (0.5, 3.0)])
def test_a_thing_beyond_the_border_is_cut_off(where: tuple[float, float]) -> None:
    x, y = where
    cut = render([scene(replace(RED, x=x, y=y))], 40)[0]
    wide = replace(RED, x=(x + 1) / 3, y=(y + 1) / 3, radius=RED.radius / 3)
    assert (cut.int() - render([scene(wide)], 120)[0, :, 40:80, 40:80].int()).abs().max() <= 1


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_gpu_agrees_with_the_cpu() -> None:
    scenes = samples(300)
    difference = (render(scenes, 64).int() - render(scenes, 64, "cuda").cpu().int()).abs()
    assert difference.max() <= 2
    assert (difference > 0).double().mean() < 1e-3
