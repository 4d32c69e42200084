"""In which order things are named, and which of the relations between them a person would name."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from equipoise.data.scenes.scene import Scene

Relations = tuple[tuple[int, str, int], ...]


def spoken_relation(scene: Scene, first: int, second: int) -> str | None:
    """The relation a person would name: inside or around, else along the axis on which the two lie further apart."""
    a, b = scene.things[first], scene.things[second]
    if a.holder == second:
        return "inside"
    if b.holder == first:
        return "around"
    dx, dy = b.x - a.x, b.y - a.y
    relation = ("left_of" if dx > 0 else "right_of") if abs(dx) > abs(dy) else ("above" if dy > 0 else "below")
    return relation if scene.holds(first, relation, second) else None


def naming_order(scene: Scene, rng: Random) -> list[int]:
    """The things in random order, but one that lies inside another goes beside it: nobody would leave that unsaid."""
    order = sorted(range(len(scene.things)), key=lambda _: rng.random())
    for inner in [i for i in order if scene.things[i].holder is not None]:
        pair = [i for i in order if i in (inner, scene.things[inner].holder)]
        order = pair + [i for i in order if i not in pair]
    return order


def linked(scene: Scene, order: Sequence[int], rng: Random) -> Relations:
    """Relations that hold the things together: all to the first, or each to the next."""
    around = around_first(scene, order) if rng.random() < 0.4 else ()
    return around or _relations(scene, order, [(i, i + 1) for i in range(len(order) - 1)])


def around_first(scene: Scene, order: Sequence[int]) -> Relations:
    """All things related to the first; nothing where two of them would be said to lie on the same side of it."""
    relations = _relations(scene, order, [(i, 0) for i in range(1, len(order))])
    sides = {relation for _, relation, _ in relations}
    return relations if len(sides) == len(order) - 1 else ()


def _relations(scene: Scene, order: Sequence[int], links: Sequence[tuple[int, int]]) -> Relations:
    found = [(a, spoken_relation(scene, order[a], order[b]), b) for a, b in links]
    return tuple((a, relation, b) for a, relation, b in found if relation is not None)
