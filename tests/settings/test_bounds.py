"""Every number of a recipe has bounds: what lies outside is refused in one sentence that names the key."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import pytest

from equipoise.config import load_layers, load_run
from equipoise.settings.bounds import BY_KIND, SEED, Bounds, bounded, bounds_for, within
from equipoise.settings.layers import LayeredTable, parse
from equipoise.settings.overrides import command_line
from equipoise.settings.recipe import recipe_layers
from equipoise.settings.resolve import resolve
from equipoise.types import UserError

RECIPES = ("demo", "fdt-swin-scenes", "m3mix-noisy-scenes", "flickr8k-fashion")


@dataclass(frozen=True)
class Part:
    ratio: float = bounded(4.0, 0.5, 64)
    heads: tuple[int, ...] = bounded((1, 2), 1, 8)
    seed: int = within(SEED, 0)
    size: int = 3
    shift: float = 0.0
    on: bool = False
    either: float | str = "auto"


def read(text: str) -> Part:
    return resolve(Part, LayeredTable((parse(text, "my.toml"),)))[0]


def test_both_ends_belong_to_the_range() -> None:
    assert read("ratio = 64\nheads = [1, 8]\nseed = 9223372036854775807") == Part(64.0, (1, 8), 2**63 - 1)
    assert read("ratio = 0.5\nsize = 0\nshift = -1e30\non = true").on


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("ratio = 0.4", 'my.toml:1: "ratio" must be a number, from 0.5 to 64, found 0.4'),
        ("ratio = 65", 'my.toml:1: "ratio" must be a number, from 0.5 to 64, found 65'),
        ("ratio = nan", 'my.toml:1: "ratio" must be finite (neither inf nor nan), found nan'),
        ("ratio = -inf", 'my.toml:1: "ratio" must be finite (neither inf nor nan), found -inf'),
        ("heads = [1, 9]", 'my.toml:1: "heads" must be a list, each item a whole number, from 1 to 8, found [1, 9]'),
        ("seed = -1", 'my.toml:1: "seed" must be a whole number, from 0 to 9223372036854775807, found -1'),
        ("size = -1", 'my.toml:1: "size" must be a whole number, from 0 to 2147483647, found -1'),
        ("size = 2147483648", 'my.toml:1: "size" must be a whole number, from 0 to 2147483647, found 2147483648'),
        ("shift = 1e31", 'my.toml:1: "shift" must be a number, from -1e+30 to 1e+30, found 1e+31'),
        ("either = inf", 'my.toml:1: "either" must be finite (neither inf nor nan), found inf'),
        ("either = -1e300", 'my.toml:1: "either" must be a number or text, from -1e+30 to 1e+30, found -1e+300'),
    ],
)
def test_numbers_out_of_range(text: str, sentence: str) -> None:
    with pytest.raises(UserError) as error:
        read(text)
    assert str(error.value) == sentence


def numbers(component: Any, key: tuple[str, ...] = ()) -> Iterator[tuple[str, Any, Bounds]]:
    """The key, the value and the bounds of every number, and list of numbers, of a run."""
    for part in (part for part in fields(component) if part.init):
        value = getattr(component, part.name)
        name = (*key, part.name)
        if isinstance(value, dict):
            for inner, one in value.items():
                yield from numbers(one, (*name, inner))
        elif is_dataclass(value):
            yield from numbers(value, name)
        else:
            first = value[0] if isinstance(value, tuple) and value else value
            if type(first) in BY_KIND:
                yield ".".join(name), value, bounds_for(part.metadata, first)


def outside(bounds: Bounds, kind: type, draw: random.Random) -> list[str]:
    """Numbers just out of the bounds, far out of them, and no numbers at all."""
    if kind is int:
        far = draw.randrange(10**6, 10**30)
        return [str(int(edge)) for edge in (bounds.least - 1, bounds.least - far, bounds.most + 1, bounds.most + far)]
    far = 10 ** draw.uniform(31, 308)
    step = 1e-3 * max(abs(bounds.least), abs(bounds.most), 1)
    return [repr(float(edge)) for edge in (bounds.least - step, bounds.most + step, far, -far)] + ["nan", "inf", "-inf"]


@pytest.mark.parametrize("recipe", [RECIPES[0], *(pytest.param(one, marks=pytest.mark.slow) for one in RECIPES[1:])])
def test_every_number_of_a_recipe_has_bounds(recipe: str) -> None:
    draw, layers = random.Random(recipe), recipe_layers(recipe)
    for key, value, bounds in numbers(load_layers(*layers).run):
        first = value[0] if isinstance(value, tuple) else value
        for text in outside(bounds, type(first), draw):
            written = text if first is value else f"[{', '.join([text, *map(repr, value[1:])])}]"
            with pytest.raises(UserError) as error:
                load_layers(*layers, command_line([f"{key}={written}"], recipe))
            assert str(error.value).startswith(f"--set {key}: ")
            assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "setting",
    [
        "training.micro_batch=-1",
        "image.mlp_ratio=nan",
        "image.mlp_ratio=1e300",
        "training.loader_timeout=1e300",
        "temperature.speed=1e308",
        "evaluation.chunk=9223372036854775808",
        "preprocess.std=[inf, 1, 1]",
        "preprocess.std=[1e-30, 1, 1]",
        "preprocess.mean=[nan, 0, 0]",
        "image.layers=1000000000",
        "image.width=100000000",
        "space.dim=1000000000",
        "tokens.context=1000000000",
        "tokens.vocabulary=1000000000",
        "preprocess.size=1000000",
        "lora.rank=1000000000",
    ],
)
def test_numbers_that_once_ended_in_a_traceback(setting: str) -> None:
    key = setting.partition("=")[0]
    with pytest.raises(UserError, match=f'^--set {key}: "{key}" must be '):
        load_run("demo", [setting])
