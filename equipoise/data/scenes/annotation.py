"""A scene as a pair: captions, label, tags, boxes, and the whole truth as plain data that JSON can hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from itertools import combinations
from typing import Any

from equipoise.data.scenes.language.grammar import Caption
from equipoise.data.scenes.language.meaning import true_of
from equipoise.data.scenes.language.relations import spoken_relation
from equipoise.data.scenes.language.vocabulary import TEXTURES
from equipoise.data.scenes.scene import Background, Scene, Thing
from equipoise.data.source import Pair

THING, BACKGROUND = ({field.name for field in fields(kind)} for kind in (Thing, Background))
LIES = frozenset({"shuffled", "wrong_attribute"})  # the kinds of noise that make captions false


def annotated(key: str, scene: Scene, captions: Sequence[Caption], noise: str, other: str | None) -> Pair:
    """The pair with its truth; `other` is the key of the record that noise took something from."""
    true = [noise not in LIES or true_of(caption.meaning, scene) for caption in captions]
    truth = {
        "is_clean": all(true),
        "captions_true": true,
        "details": [caption.detail for caption in captions],
        "noise": noise,
        "other": other,
        "scene": scene_graph(scene),
    }
    return Pair(
        key=key,
        captions=tuple(caption.text for caption in captions),
        label=scene.things[0].shape if len(scene.things) == 1 else None,
        tags=tuple(map(_tag, scene.things)),
        boxes=tuple(thing.box for thing in scene.things),
        truth=truth,
    )


def scene_graph(scene: Scene) -> dict[str, Any]:
    """Things with all their attributes, the background, and for each two things the relation a person would name."""
    related = ((a, spoken_relation(scene, a, b), b) for a, b in combinations(range(len(scene.things)), 2))
    return {
        "things": [{**vars(thing), "tint": list(thing.tint)} for thing in scene.things],
        "background": {**vars(scene.background), "colours": [list(colour) for colour in scene.background.colours]},
        "relations": [list(relation) for relation in related if relation[1] is not None],
    }


def has_scene(pair: Pair) -> bool:
    """Whether the truth of a pair is that of a scene; a `scene` of any other form is a field of its author's own."""
    graph = pair.truth.get("scene")
    if not isinstance(graph, Mapping) or not isinstance(graph.get("things"), list):
        return False
    is_thing = (isinstance(thing, Mapping) and set(thing) == THING for thing in graph["things"])
    background = graph.get("background")
    return all(is_thing) and isinstance(background, Mapping) and set(background) == BACKGROUND


def scene_of(graph: Mapping[str, Any]) -> Scene:
    """The scene that `scene_graph` made plain, also after a stay in a JSON file."""
    things = tuple(Thing(**{**thing, "tint": tuple(thing["tint"])}) for thing in graph["things"])
    first, second = (tuple(colour) for colour in graph["background"]["colours"])
    return Scene(things, Background(**{**graph["background"], "colours": (first, second)}))


def _tag(thing: Thing) -> str:
    """ "red striped fish"; a solid surface goes without saying, one that has no name cannot be said."""
    texture = [thing.texture] if thing.texture in TEXTURES and thing.texture != "solid" else []
    return " ".join([thing.colour, *texture, thing.shape])
