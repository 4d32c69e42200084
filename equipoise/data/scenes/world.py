"""The world scenes are drawn from: a pure function of (world, seed, split, index).

What is in a scene is drawn before where it lies. A stable hash of that content alone decides the split it belongs to,
so train, validation and test never share a content, whatever the seed; content of another split is drawn again, which
is cheap because nothing has been placed yet. With `splits = "iid"` all splits are drawn from the same contents, and
differ by their random numbers alone: what is learned by heart in training is then right in test. Things keep apart, but
for a small one that may lie inside a large one.

A shift changes the finished scene with random numbers of its own: the shifted world shows the same things in the
same places.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations, product
from random import Random
from typing import TypeVar

from equipoise.data.rng import keyed_int, python_random
from equipoise.data.scenes.language.vocabulary import BACKGROUNDS, COLOURS, SHAPES, SIZES, TEXTURES
from equipoise.data.scenes.scene import Background, Scene, Thing
from equipoise.data.scenes.shifts import SHIFTS
from equipoise.data.splits import require_split
from equipoise.types import UserError

T = TypeVar("T")
Look = tuple[str, str, str, str]  # shape, colour, texture, size: one entry of Scene.content()
Place = tuple[float, float, float, int | None]  # x, y, radius, holder

CONTENT, IID = "content", "iid"
MOST_THINGS = 4
GAP = 0.02  # least distance between two things, and twice that to the image's border
JITTER = 0.06  # of a radius; the sizes stay apart
ZOOMS = (0.5, 1.4)
TILT = math.radians(12)
TINT = 0.03
OUTLINED = "outlined"
MOST_DRAWS = 2_000  # of content, before an error says that a split has none
TRIES = 12  # throws for a free spot before a scene is drawn anew
NESTED = 0.25  # share of the scenes of two and more things in which one lies inside another
OPENINGS: Mapping[str, float] = {  # holder -> radius of the free disc in its middle once outlined, in its own frame
    "circle": 0.85, "ring": 0.56, "hexagon": 0.66, "square": 0.5, "heart": 0.38, "diamond": 0.36,
}  # fmt: skip
MUTED: Sequence[tuple[float, float, float]] = (  # background colours beside which every named colour can be seen
    (0.62, 0.70, 0.76), (0.72, 0.76, 0.66), (0.78, 0.72, 0.62), (0.74, 0.66, 0.70),
    (0.66, 0.66, 0.76), (0.64, 0.74, 0.70), (0.78, 0.78, 0.74), (0.70, 0.64, 0.58),
    (0.58, 0.64, 0.66), (0.70, 0.73, 0.80), (0.80, 0.74, 0.72), (0.62, 0.64, 0.56),
)  # fmt: skip

_MUTED_PAIRS = tuple(permutations(MUTED, 2))


@dataclass(frozen=True)
class World:
    """How many things a scene holds, and how its picture differs from the ordinary ones."""

    min_things: int = 1
    max_things: int = 4
    shift: str = "none"
    zoom: float = 1.0  # how much larger than usual things are drawn
    shapes: tuple[str, ...] = tuple(SHAPES)  # the ones that occur
    colours: tuple[str, ...] = tuple(COLOURS)
    textures: tuple[str, ...] = tuple(TEXTURES)
    splits: str = CONTENT  # no content of one split occurs in another; or iid

    def __post_init__(self) -> None:
        if self.splits not in (CONTENT, IID):
            raise UserError(f"splits is {self.splits!r}; choose {CONTENT} or {IID}.")
        for name, all_of_them in (("shapes", SHAPES), ("colours", COLOURS), ("textures", TEXTURES)):
            chosen = getattr(self, name)
            if not chosen or set(chosen) - set(all_of_them):
                raise UserError(f"{name} is {list(chosen)}; choose some of {', '.join(all_of_them)}.")
        if not ZOOMS[0] <= self.zoom <= ZOOMS[1]:
            raise UserError(f"zoom is {self.zoom}; choose it from {ZOOMS[0]} to {ZOOMS[1]}, so that two things fit.")
        if not 1 <= self.min_things <= self.max_things <= MOST_THINGS:
            raise UserError(
                f"a scene cannot hold {self.min_things} to {self.max_things} things; "
                f"choose 1 <= min_things <= max_things <= {MOST_THINGS}."
            )
        if self.shift not in SHIFTS:
            raise UserError(f"there is no shift {self.shift!r}; choose one of {', '.join(SHIFTS)}.")

    @cached_property
    def looks(self) -> Sequence[Look]:
        return tuple(product(self.shapes, self.colours, self.textures, SIZES))

    @cached_property
    def holders(self) -> Sequence[str]:
        """Shapes that may have a thing inside; all but a ring must be drawn in outline for that."""
        return tuple(
            shape for shape in OPENINGS if shape in self.shapes and (shape == "ring" or OUTLINED in self.textures)
        )


def sample_scene(world: World, seed: int, split: str, index: int) -> Scene:
    """The scene number `index` of a split."""
    require_split(split)
    rng = python_random(seed, split, index, "scene")
    count = world.min_things + int((world.max_things - world.min_things + 1) * rng.random())
    places = None
    while places is None:  # a crowd that finds no room makes way for other things
        looks, nested = _draw_looks(rng, world, count, split)
        places = _draw_places(rng, looks, nested, world.zoom)
    things = tuple(_draw_thing(rng, look, place) for look, place in zip(looks, places, strict=True))
    scene = Scene(things, _draw_background(rng))
    return (
        scene if world.shift == "none" else SHIFTS[world.shift](scene, python_random(seed, split, index, world.shift))
    )


def split_of(content: tuple[Look, ...]) -> str:
    """The one split in which scenes of this content may appear: 80% train, 10% validation, 10% test."""
    share = keyed_int(";".join(map(",".join, content)), "little") % 10
    return "train" if share < 8 else "validation" if share == 8 else "test"


def _pick(rng: Random, options: Sequence[T]) -> T:
    """Picks like rng.choice, at half its cost."""
    return options[int(rng.random() * len(options))]


def _about_zero(rng: Random, most: float) -> float:
    return most * (2 * rng.random() - 1)


def _draw_looks(rng: Random, world: World, count: int, split: str) -> tuple[list[Look], bool]:
    """Things whose content belongs to the split, and whether the second lies inside the first."""
    nested = count > 1 and rng.random() < NESTED and bool(world.holders)
    for _ in range(MOST_DRAWS):
        looks = [_pick(rng, world.looks) for _ in range(count)]
        if nested:
            holder = _pick(rng, world.holders)
            looks[0] = (holder, looks[0][1], looks[0][2] if holder == "ring" else OUTLINED, "large")
            looks[1] = (*looks[1][:3], "small")
        if world.splits == IID or split_of(tuple(sorted(looks))) == split:
            return looks, nested
    raise UserError(
        f"the {split} split has no scene of {count} things with these shapes, colours and textures; allow more of them."
    )


def _draw_places(rng: Random, looks: Sequence[Look], nested: bool, zoom: float) -> list[Place] | None:
    """Where the things lie, the largest thrown first; None where they find no room."""
    radii = [zoom * SIZES[size][1] * (1 + _about_zero(rng, JITTER)) for *_, size in looks]
    places: dict[int, Place] = {}
    for number in sorted(range(len(looks)), key=radii.__getitem__, reverse=True):
        if nested and number == 1:
            continue
        place = _find_room(rng, radii[number], places.values())
        if place is None:
            return None
        places[number] = place
    if nested:
        places[1] = _find_middle(rng, radii[1], places[0], OPENINGS[looks[0][0]])
    return [places[number] for number in range(len(looks))]


def _find_room(rng: Random, radius: float, taken: Iterable[Place]) -> Place | None:
    border = radius + 2 * GAP
    span = 1 - 2 * border
    for _ in range(TRIES):
        x, y = border + span * rng.random(), border + span * rng.random()
        for other_x, other_y, other, _ in taken:
            if (x - other_x) ** 2 + (y - other_y) ** 2 < (radius + other + GAP) ** 2:
                break
        else:
            return x, y, radius, None
    return None


def _find_middle(rng: Random, radius: float, holder: Place, opening: float) -> Place:
    """Inside the first thing, made small enough to leave a gap all round."""
    x, y, around, _ = holder
    radius = min(radius, 0.92 * opening * around)
    play = 0.6 * (opening * around - radius) / math.sqrt(2)
    return x + _about_zero(rng, play), y + _about_zero(rng, play), radius, 0


def _draw_thing(rng: Random, look: Look, place: Place) -> Thing:
    x, y, radius, holder = place
    tint = (_about_zero(rng, TINT), _about_zero(rng, TINT), _about_zero(rng, TINT))
    return Thing(*look, x, y, radius, _about_zero(rng, TILT), tint, holder)


def _draw_background(rng: Random) -> Background:
    return Background(_pick(rng, BACKGROUNDS), _pick(rng, _MUTED_PAIRS), int(rng.random() * 2**31))
