"""Which captions are true of which scenes: the many-to-many truth, for all of them at once.

A set of scenes is one big integer, one bit a scene. For every attribute and every place in a scene's list of things
there is such a set ("the scenes whose second thing is red"), and so for every relation between two places. A meaning is
then decided for all scenes together: assign places to its phrases in every way, intersect the sets, join the results.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_

import numpy as np

from equipoise.data.scenes.language.meaning import Meaning, Phrase
from equipoise.data.scenes.language.vocabulary import RELATIONS
from equipoise.data.scenes.scene import Scene


def relevance(scenes: Sequence[Scene], meanings: Sequence[Meaning]) -> np.ndarray:
    """Bool [scenes, meanings]: whether each meaning is true of each scene."""
    sets = SceneSets(scenes)
    truth = np.empty((len(meanings), len(scenes)), dtype=bool)
    known: dict[Meaning, np.ndarray] = {}
    for row, meaning in zip(truth, meanings, strict=True):
        if meaning not in known:
            known[meaning] = _unpacked(sets.true_of(meaning), len(scenes))
        row[:] = known[meaning]
    return truth.T


class SceneSets:
    """The scenes, indexed by what is at each place in their lists of things and how those stand to each other."""

    def __init__(self, scenes: Sequence[Scene]) -> None:
        self.places = range(max((len(scene.things) for scene in scenes), default=0))
        self.everything = (1 << len(scenes)) - 1
        members = defaultdict[tuple, list[int]](list)
        for number, scene in enumerate(scenes):
            for key in _facts(scene):
                members[key].append(number)
        self.sets = {key: _packed(numbers, len(scenes)) for key, numbers in members.items()}

    def true_of(self, meaning: Meaning) -> int:
        """The set of scenes of which the meaning is true."""
        candidates = self.everything if meaning.count is None else self.sets.get(("count", meaning.count), 0)
        fitting = [[self.fitting(phrase, place) for place in self.places] for phrase in meaning.phrases]
        return self._extended(meaning, fitting, (), candidates)

    def fitting(self, phrase: Phrase, place: int) -> int:
        """The scenes whose thing at this place fits the phrase."""
        stated = (
            ("shape", phrase.shapes),
            ("colour", phrase.colours),
            ("texture", phrase.texture and {phrase.texture}),
            ("size", phrase.size and {phrase.size}),
        )
        result = self.sets.get(("thing", place), 0)
        for attribute, values in stated:
            if values is not None:
                result &= reduce(or_, (self.sets.get((attribute, place, value), 0) for value in values), 0)
        return result

    def _extended(self, meaning: Meaning, fitting: list[list[int]], chosen: tuple[int, ...], candidates: int) -> int:
        """Those of the candidates in which places for the remaining phrases can be found."""
        phrase = len(chosen)
        if phrase == len(fitting) or not candidates:
            return candidates
        found = 0
        for place in self.places:
            if place in chosen:
                continue
            extended, remaining = (*chosen, place), candidates & fitting[phrase][place]
            for a, relation, b in meaning.relations:
                if max(a, b) == phrase:
                    remaining &= self.sets.get((relation, extended[a], extended[b]), 0)
            found |= self._extended(meaning, fitting, extended, remaining)
        return found


def _facts(scene: Scene) -> Iterable[tuple]:
    """All that is the case in a scene, as keys of the index."""
    yield "count", len(scene.things)
    for place, thing in enumerate(scene.things):
        yield "thing", place
        yield "shape", place, thing.shape
        yield "colour", place, thing.colour
        yield "texture", place, thing.texture
        yield "size", place, thing.size
        for other in range(len(scene.things)):
            if other != place:
                yield from ((r, place, other) for r in RELATIONS if scene.holds(place, r, other))


def _packed(numbers: Sequence[int], length: int) -> int:
    bits = np.zeros(length, dtype=bool)
    bits[numbers] = True
    return int.from_bytes(np.packbits(bits, bitorder="little").tobytes(), "little")


def _unpacked(members: int, length: int) -> np.ndarray:
    packed = np.frombuffer(members.to_bytes((length + 7) // 8, "little"), dtype=np.uint8)
    return np.unpackbits(packed, count=length, bitorder="little").astype(bool)
