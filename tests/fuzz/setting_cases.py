"""Random recipes and `--set` words: settings that exist with values that they should not have, and plain nonsense."""

from __future__ import annotations

import json
from functools import cache
from random import Random
from typing import Any

from draw import TEXTS, VALUES, WORDS
from edits import Edit, text_of

from equipoise.config import load_run

RECIPES = ("demo", "fdt-scenes", "softclip-scenes", "clip-scenes")
SPELT = [
    "nan",
    "-nan",
    "inf",
    "-inf",
    "1e300",
    "0x10",
    "1_000",
    "1979-05-27",
    "'x'",
    "[1,2",
    "{a=1}",
    '"\\u0000"',
    "",
    "=",
    "true",
    "\n",
    "a.b",
    "#",
]
TABLES = [
    "[data]",
    "[[data]]",
    "[data.x]",
    '["#"]',
    "[image]\n[image]",
    "[training.training]",
    "extends = 3",
    'extends = "demo"',
    "[]",
]


@cache
def keys() -> list[str]:
    """The names of all settings that some recipe has, and of the tables that they are in."""
    found: set[str] = set()

    def walk(table: dict[str, Any], before: str) -> None:
        for name, value in table.items():
            found.add(before + name)
            if isinstance(value, dict):
                walk(value, f"{before}{name}.")

    for recipe in ("demo", "fdt-scenes"):
        walk(load_run(recipe).table, "")
    return sorted(found)


def a_value(random: Random) -> str:
    if random.random() < 0.3:
        return random.choice(SPELT)
    value = random.choice(VALUES)
    if isinstance(value, dict):
        return text_of(value)[:20_000] if "times" in value else text_of(value)
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value, ensure_ascii=random.random() < 0.5)


def a_setting(random: Random) -> str:
    """KEY=VALUE, most often with a key that exists."""
    chance = random.random()
    if chance < 0.8:
        return f"{random.choice(keys())}={a_value(random)}"
    if chance < 0.9:
        key = list(random.choice(keys()))
        key.insert(random.randrange(len(key)), random.choice([".", "#", "=", " ", '"', "é", "\0", "x"]))
        return f"{''.join(key)}={a_value(random)}"
    return random.choice([*TEXTS, *SPELT])


def a_recipe(random: Random, sound: bytes) -> Edit:
    """A recipe with damaged lines, or lines that are strange to it."""
    chance = random.random()
    lines = sound.split(b"\n")
    for _ in range(random.choice([1, 1, 2, 4])):
        row = random.randrange(len(lines))
        if chance < 0.4:
            lines.insert(
                row,
                random.choice([f"{random.choice(keys())} = {a_value(random)}", random.choice(TABLES)]).encode(
                    "utf-8", "surrogatepass"
                ),
            )
        elif chance < 0.7:
            name = lines[row].partition(b"=")[0]
            lines[row] = name + b"=" + a_value(random).encode("utf-8", "surrogatepass")
        elif chance < 0.8:
            del lines[row : row + random.randrange(4)]
            lines = lines or [b""]
        else:
            at = random.randrange(len(lines[row]) + 1)
            lines[row] = lines[row][:at] + random.choice(WORDS) + lines[row][at:]
    return {"do": "write", "hex": b"\n".join(lines).hex()}
