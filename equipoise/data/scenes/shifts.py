"""Shifted worlds: one thing about the pictures changes, what is in them and where stays.

Each shift is a function (scene, rng) -> scene, used to test a model beyond the pictures it was trained on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random

from equipoise.data.scenes.language.vocabulary import COLOURS, UNSEEN_BACKGROUNDS, UNSEEN_TEXTURES
from equipoise.data.scenes.scene import Scene, Thing

Shift = Callable[[Scene, Random], Scene]
Colour = tuple[float, float, float]

# shapes another shape's name would fit once they stand on a corner: these turn by quarters and a little more
UPRIGHT = frozenset({"square", "diamond", "cross"})
LEAN = math.radians(25)

SHADES: Mapping[str, tuple[Colour, Colour]] = {  # colour -> two shades at the ends of what its word still covers
    "red": ((0.62, 0.04, 0.10), (0.95, 0.22, 0.16)),
    "orange": ((0.88, 0.42, 0.04), (1.00, 0.66, 0.24)),
    "yellow": ((0.86, 0.82, 0.10), (1.00, 0.93, 0.42)),
    "green": ((0.06, 0.44, 0.14), (0.42, 0.76, 0.22)),
    "cyan": ((0.08, 0.66, 0.72), (0.36, 0.92, 0.88)),
    "blue": ((0.08, 0.16, 0.60), (0.22, 0.46, 0.96)),
    "purple": ((0.38, 0.08, 0.52), (0.64, 0.30, 0.84)),
    "pink": ((0.94, 0.44, 0.66), (0.98, 0.68, 0.78)),
    "brown": ((0.34, 0.20, 0.10), (0.56, 0.35, 0.16)),
    "black": ((0.00, 0.02, 0.10), (0.14, 0.09, 0.07)),
    "grey": ((0.42, 0.45, 0.49), (0.59, 0.56, 0.53)),
    "white": ((0.93, 0.96, 1.00), (1.00, 0.98, 0.91)),
}


def unshifted(scene: Scene, rng: Random) -> Scene:  # noqa: ARG001 every shift is asked the same way
    return scene


def texture(scene: Scene, rng: Random) -> Scene:
    """Unseen textures; an outline that holds another thing stays open."""
    holders = {thing.holder for thing in scene.things}

    def change(number: int, thing: Thing) -> Thing:
        kept = number in holders and thing.shape != "ring"
        return thing if kept else replace(thing, texture=rng.choice(UNSEEN_TEXTURES))

    return replace(scene, things=tuple(change(number, thing) for number, thing in enumerate(scene.things)))


def background(scene: Scene, rng: Random) -> Scene:
    """Unseen backgrounds in the same colours."""
    return replace(scene, background=replace(scene.background, kind=rng.choice(UNSEEN_BACKGROUNDS)))


def rotation(scene: Scene, rng: Random) -> Scene:
    """Things lie at any angle at which a person would still call them the same."""

    def angle(shape: str) -> float:
        if shape in UPRIGHT:
            return rng.randrange(-1, 3) * math.pi / 2 + rng.uniform(-LEAN, LEAN)
        return rng.uniform(-math.pi, math.pi)

    return replace(scene, things=tuple(replace(thing, angle=angle(thing.shape)) for thing in scene.things))


def hue(scene: Scene, rng: Random) -> Scene:
    """Colours move towards the ends of what their word covers."""

    def tint(colour: str) -> Colour:
        shade, usual, far = rng.choice(SHADES[colour]), COLOURS[colour][1], rng.uniform(0.75, 1)
        red, green, blue = (far * (to - now) for to, now in zip(shade, usual, strict=True))
        return red, green, blue

    return replace(scene, things=tuple(replace(thing, tint=tint(thing.colour)) for thing in scene.things))


SHIFTS: Mapping[str, Shift] = {
    "none": unshifted,
    "texture": texture,
    "background": background,
    "rotation": rotation,
    "hue": hue,
}
