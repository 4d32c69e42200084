"""A scene as a graph: things with attributes and places, and the relations that hold between them.

Coordinates: the image is the unit square, x to the right, y downwards; radii are shares of the image side.
Relations are decided here and nowhere else, so that pictures, captions and relevance can never disagree.
"""

from __future__ import annotations

from dataclasses import dataclass

MARGIN = 0.12  # how far apart two centres must be along an axis before "left of" or "above" is true


@dataclass(frozen=True)
class Thing:
    shape: str
    colour: str
    texture: str
    size: str
    x: float
    y: float
    radius: float
    angle: float = 0.0  # radians, turned about its centre; small, but for the rotation shift
    tint: tuple[float, float, float] = (0.0, 0.0, 0.0)  # added to the named colour, small
    holder: int | None = None  # number of the thing this one lies inside

    @property
    def box(self) -> tuple[float, float, float, float]:
        """x0, y0, x1, y1 in [0, 1]."""
        r = self.radius
        return max(0.0, self.x - r), max(0.0, self.y - r), min(1.0, self.x + r), min(1.0, self.y + r)


@dataclass(frozen=True)
class Background:
    kind: str
    colours: tuple[tuple[float, float, float], tuple[float, float, float]]
    seed: int  # fixes phase, direction and grain


@dataclass(frozen=True)
class Scene:
    things: tuple[Thing, ...]
    background: Background

    def holds(self, first: int, relation: str, second: int) -> bool:
        """Whether `first relation second` is true of two things, given by their numbers."""
        a, b = self.things[first], self.things[second]
        nested = a.holder == second or b.holder == first  # a thing inside another is neither left of nor above it
        match relation:
            case "left_of":
                return not nested and b.x - a.x > MARGIN
            case "right_of":
                return not nested and a.x - b.x > MARGIN
            case "above":
                return not nested and b.y - a.y > MARGIN
            case "below":
                return not nested and a.y - b.y > MARGIN
            case "inside":
                return a.holder == second
            case "around":
                return b.holder == first
        raise ValueError(f"unknown relation {relation!r}")

    def content(self) -> tuple[tuple[str, str, str, str], ...]:
        """What is in the scene, without where: equal for scenes that count as the same across splits."""
        return tuple(sorted((t.shape, t.colour, t.texture, t.size) for t in self.things))
