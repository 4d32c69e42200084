"""Sentences about scenes that leave something out or get it wrong, each beside the one that is complete and true.

    object left out      a red fish and a blue star  |  a blue star
    object added         a red fish and a blue star  |  a red fish, a green tree, and a blue star
    attribute left out   a red fish and a blue star  |  a fish and a blue star
    object swapped       a red fish and a blue star  |  a red tree and a blue star
    attribute swapped    a red fish and a blue star  |  a green fish and a blue star

The first is the protocol of FDT (`completeness.py`) in the words that scenes are described with, the second its
control. What is swapped in or added is drawn from what no thing of the scene is, so that the sentence is false.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from equipoise.data.rng import python_random
from equipoise.data.scenes.language.naming import with_article
from equipoise.data.scenes.language.vocabulary import COLOURS, SHAPES, TEXTURES
from equipoise.data.source import Pair
from equipoise.evaluation.completeness import SentencePair, added, left_out, listed

TEMPLATE = "a picture of {}"
Thing = Mapping[str, Any]


def scene_contrasts(image: int, pair: Pair, seed: int = 0) -> list[SentencePair]:
    """Pairs of sentences of one scene."""
    things: Sequence[Thing] = pair.truth["scene"]["things"]
    names = list(dict.fromkeys(map(named, things)))
    rng = python_random(seed, "completeness", image, "swap")
    contrasts = left_out(image, names, TEMPLATE)
    # of a generator of its own: what is swapped stays what it was
    extra = python_random(seed, "completeness", image, "add")
    contrasts += added(image, names, _absent(things, extra), extra, TEMPLATE)
    matched = TEMPLATE.replace("{}", listed(names))
    for thing in things:
        for kind, other in _others(thing, things, rng).items():
            changed = list(dict.fromkeys(other if name == named(thing) else name for name in names))
            contrasts.append(SentencePair(image, kind, matched, TEMPLATE.replace("{}", listed(changed)), len(names)))
    return contrasts


def named(thing: Thing) -> str:
    """ "a red striped fish"; a solid surface goes without saying, one that has no name cannot be said."""
    texture = [thing["texture"]] if thing["texture"] in TEXTURES and thing["texture"] != "solid" else []
    colour = [thing["colour"]] if thing["colour"] else []
    return with_article(" ".join([*colour, *texture, thing["shape"]]))


def _absent(things: Sequence[Thing], rng: Random) -> list[str]:
    """A thing of every shape that is not in the scene, in any colour."""
    shapes = [shape for shape in SHAPES if all(shape != one["shape"] for one in things)]
    return [with_article(f"{rng.choice(list(COLOURS))} {shape}") for shape in shapes]


def _others(thing: Thing, things: Sequence[Thing], rng: Random) -> dict[str, str]:
    """The thing said otherwise, by kind."""
    shape = rng.choice([shape for shape in SHAPES if all(shape != one["shape"] for one in things)])
    colour = rng.choice([colour for colour in COLOURS if all(colour != one["colour"] for one in things)])
    return {
        "attribute left out": named({**thing, "colour": ""}),
        "object swapped": named({**thing, "shape": shape}),
        "attribute swapped": named({**thing, "colour": colour}),
    }
