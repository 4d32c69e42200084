"""Questions that a scene answers: what is there, how many, of what colour, where.

    yes/no   is there a red fish? · is the fish left of the star?
    number   how many things are there? · how many red things are there? · how many stars are there?
    other    what colour is the fish? · what shape is the red thing? · how large is the fish? · what is the surface ...?

"The fish" is asked of scenes with a single one. Presence and numbers can be asked of every scene: one that does not
name a thing answers `otherwise`. Words are the plainest of the vocabulary.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

from equipoise.data.scenes.language.naming import plural, with_article
from equipoise.data.scenes.language.vocabulary import RELATIONS, SHAPES, TEXTURES
from equipoise.data.scenes.scene import Scene, Thing


@dataclass(frozen=True)
class SceneQuestion:
    kind: str  # of the answer, as in VQA
    about: str
    text: str
    answer: str
    otherwise: str = ""  # the answer of scenes that do not ask it themselves; empty: it makes no sense there


def asked_of(scene: Scene) -> Iterator[SceneQuestion]:
    """Every question that the scene has an answer to other than "no" and "0"; no text twice."""
    colours, shapes = (Counter(getattr(thing, name) for thing in scene.things) for name in ("colour", "shape"))
    for colour, shape in dict.fromkeys((thing.colour, thing.shape) for thing in scene.things):
        text = f"is there {with_article(f'{colour} {_noun(shape)}')}?"
        yield SceneQuestion("yes/no", "presence", text, "yes", otherwise="no")
    yield SceneQuestion("number", "things", "how many things are there?", str(len(scene.things)))
    for colour, count in colours.items():
        yield SceneQuestion(
            "number", "things of a colour", f"how many {colour} things are there?", str(count), otherwise="0"
        )
    for shape, count in shapes.items():
        yield SceneQuestion(
            "number", "shapes", f"how many {plural(_noun(shape))} are there?", str(count), otherwise="0"
        )
    for thing in scene.things:
        if colours[thing.colour] == 1:
            yield SceneQuestion("other", "shape", f"what shape is the {thing.colour} thing?", _noun(thing.shape))
        if shapes[thing.shape] == 1:
            yield from _look(thing)
    yield from _relations(scene, [n for n, thing in enumerate(scene.things) if shapes[thing.shape] == 1])


def _look(thing: Thing) -> Iterator[SceneQuestion]:
    noun = _noun(thing.shape)
    yield SceneQuestion("other", "colour", f"what colour is the {noun}?", thing.colour)
    yield SceneQuestion("other", "size", f"how large is the {noun}?", thing.size)
    if thing.texture in TEXTURES:  # others are never named
        yield SceneQuestion("other", "surface", f"what is the surface of the {noun} like?", thing.texture)


def _relations(scene: Scene, singles: list[int]) -> Iterator[SceneQuestion]:
    for first, second in permutations(singles, 2):
        a, b = (_noun(scene.things[number].shape) for number in (first, second))
        for relation, words in RELATIONS.items():
            answer = "yes" if scene.holds(first, relation, second) else "no"
            yield SceneQuestion("yes/no", "relation", f"is the {a} {words[0]} the {b}?", answer)


def _noun(shape: str) -> str:
    return SHAPES[shape][0]
