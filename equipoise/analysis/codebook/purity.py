"""Purity: whether a code stands for one shape, one colour or one texture, where the truth of scenes is known.

    share_c(v)   of the samples a code is about, the part that has the value v
    base(v)      the part of all samples that has it
    purest       the value with the largest share_c(v) - base(v)

"The samples a code is about" are its `TOP` most relevant ones (`top`), or all samples, each weighted by the code's
share in it (`weighted`). An image has the values of its things, a text those it states. The purest of many values lies
above its base rate even for samples drawn at random; `chance` says how far, for so many drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from equipoise.analysis.codebook.usage import Usage
from equipoise.data.rng import generator
from equipoise.data.scenes.annotation import has_scene
from equipoise.data.scenes.language.parser import parse
from equipoise.data.scenes.language.vocabulary import COLOURS, SHAPES, TEXTURES, UNSEEN_TEXTURES
from equipoise.data.source import Pair

TOP = 50
DRAWS = 200
VALUES = [
    *(("shape", shape) for shape in SHAPES),
    *(("colour", colour) for colour in COLOURS),
    *(("texture", texture) for texture in (*TEXTURES, *UNSEEN_TEXTURES)),
]


@dataclass(frozen=True)
class Purest:
    attribute: str
    value: str
    share: float
    base: float


def image_labels(pairs: Sequence[Pair]) -> Tensor | None:
    """Which image has which of `VALUES` [N, V]; None where the data does not know."""
    if not pairs or not all(map(has_scene, pairs)):
        return None
    return _marked([_of_scene(pair.truth["scene"]) for pair in pairs])


def text_labels(captions: Sequence[str]) -> Tensor:
    """Which caption of scenes states which of `VALUES` [M, V]."""
    return _marked([_stated(caption) for caption in captions])


def _of_scene(scene: dict[str, Any]) -> set[tuple[str, str]]:
    return {(name, thing[name]) for thing in scene["things"] for name in ("shape", "colour", "texture")}


def _stated(caption: str) -> set[tuple[str, str]]:
    found: set[tuple[str, str]] = set()
    for phrase in parse(caption).phrases:
        for name, values in (("shape", phrase.shapes), ("colour", phrase.colours)):
            if values is not None and len(values) == 1:  # "round" names no shape
                found.add((name, *values))  # type: ignore[arg-type]
        if phrase.texture:
            found.add(("texture", phrase.texture))
    return found


def _marked(found: Sequence[set[tuple[str, str]]]) -> Tensor:
    return torch.tensor([[value in has for value in VALUES] for has in found])


def purity(usage: Usage, code: int) -> dict[str, Purest]:
    """`top` and `weighted`; a code without any share has no weighted one."""
    assert usage.labels is not None
    base = usage.labels.double().mean(0)
    items = [item for item, _ in usage.best.of(code)[:TOP]]
    found = {"top": purest(usage.labels[items].double().mean(0), base)}
    if usage.shares[code] > 0:
        found["weighted"] = purest(usage.hits[code] / usage.shares[code], base)
    return found


def purest(shares: Tensor, base: Tensor) -> Purest:
    best = int((shares - base).argmax())
    return Purest(*VALUES[best], float(shares[best]), float(base[best]))


def chance(labels: Tensor, count: int, seed: int = 0) -> float:
    """Share minus base of the purest value of `count` samples drawn at random, on average."""
    made, base = generator(seed, "purity"), labels.double().mean(0)
    drawn = (torch.randperm(len(labels), generator=made)[:count] for _ in range(DRAWS))
    found = [purest(labels[some].double().mean(0), base) for some in drawn]
    return sum(one.share - one.base for one in found) / DRAWS
