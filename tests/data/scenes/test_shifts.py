"""A shift changes what it names and leaves the rest of the scene alone."""

import math
from dataclasses import replace
from typing import Any

import pytest

from equipoise.data.scenes.language.vocabulary import COLOURS, TEXTURES, UNSEEN_BACKGROUNDS, UNSEEN_TEXTURES
from equipoise.data.scenes.scene import Scene
from equipoise.data.scenes.shifts import LEAN, SHADES, SHIFTS, UPRIGHT
from equipoise.data.scenes.world import World, sample_scene

CHANGED: dict[str, dict[str, Any]] = {
    "none": {},
    "texture": {"texture": "solid"},
    "rotation": {"angle": 0.0},
    "hue": {"tint": (0.0, 0.0, 0.0)},
}


def sampled(shift: str, n: int = 400) -> list[Scene]:
    return [sample_scene(World(shift=shift), 0, "test", i) for i in range(n)]


@pytest.mark.parametrize("shift", sorted(SHIFTS))
def test_everything_else_stays(shift: str) -> None:
    for plain, shifted in zip(sampled("none"), sampled(shift), strict=True):
        same = CHANGED.get(shift, {})
        assert [replace(t, **same) for t in plain.things] == [replace(t, **same) for t in shifted.things]
        kind = plain.background.kind
        assert replace(shifted.background, kind=kind) == plain.background
        if shift != "texture":
            assert shifted.content() == plain.content()


def test_texture_is_unseen_unless_an_outline_must_stay_open() -> None:
    kept = 0
    for scene in sampled("texture"):
        holders = {t.holder for t in scene.things}
        for number, thing in enumerate(scene.things):
            if number in holders and thing.shape != "ring":
                assert thing.texture == "outlined"
                kept += 1
            else:
                assert thing.texture in UNSEEN_TEXTURES
    assert kept > 0
    assert not set(UNSEEN_TEXTURES) & set(TEXTURES)


def test_background_is_unseen() -> None:
    assert {scene.background.kind for scene in sampled("background")} == set(UNSEEN_BACKGROUNDS)


def test_rotation_reaches_all_round_but_never_makes_one_shape_another() -> None:
    things = [thing for scene in sampled("rotation") for thing in scene.things]
    free = [t.angle for t in things if t.shape not in UPRIGHT]
    assert min(free) < -3
    assert max(free) > 3
    for thing in things:
        if thing.shape in UPRIGHT:
            off_quarter = (thing.angle + math.pi / 4) % (math.pi / 2) - math.pi / 4
            assert abs(off_quarter) <= LEAN + 1e-9


def distance(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    """CIE76: the Euclidean distance in L*a*b*, where 2 is just noticeable."""
    return math.dist(lab(a), lab(b))


def lab(colour: tuple[float, ...]) -> tuple[float, float, float]:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    rows = ((0.4124, 0.3576, 0.1805), (0.2126, 0.7152, 0.0722), (0.0193, 0.1192, 0.9505))
    white = (0.9505, 1.0, 1.089)
    x, y, z = (sum(m * c for m, c in zip(row, linear, strict=True)) / w for row, w in zip(rows, white, strict=True))
    fx, fy, fz = (v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


@pytest.mark.parametrize("colour", sorted(COLOURS))
def test_hue_is_noticeable_yet_nearest_to_its_own_word(colour: str) -> None:
    usual = COLOURS[colour][1]
    for shade in SHADES[colour]:
        assert distance(shade, usual) > 5
        others = {name: distance(shade, value) for name, (_, value) in COLOURS.items()}
        assert min(others, key=others.__getitem__) == colour
