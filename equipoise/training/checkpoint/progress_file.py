"""Reading `training.json`, how far a run has come: every value of its kind and in its range, or a sentence that names
the file and the key."""

from __future__ import annotations

import json
import math
from dataclasses import fields
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from equipoise.settings.toml import literal
from equipoise.settings.values import alternatives
from equipoise.types import UserError

T = TypeVar("T")

LEAST = {"evaluated": -1, "processes": 1}  # of other numbers, 0
MOST = {"processes": 2**20}  # of other whole numbers, what 64 bits hold
UNBOUNDED = ("best", "validation")  # metrics, which may be negative
WORDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false", dict: "a table"}


def read_progress(path: Path, kind: type[T]) -> T:
    """The dataclass that the file holds; a key that it lacks has its default, for earlier versions wrote fewer."""
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path.name} cannot be read ({error})") from error
    if not isinstance(table, dict):
        raise UserError(f"{path.name} must hold a table, not {shortened(table)}")
    hints, known = get_type_hints(kind), {part.name for part in fields(kind)}  # type: ignore[arg-type]
    for name, value in table.items():
        if name not in known:
            raise UserError(f"{path.name}: {shortened(name)} is unknown to this version")
        if problem := _problem(name, value, hints[name]):
            raise UserError(f'{path.name}: "{name}" must be {problem}, not {shortened(value)}')
    return kind(**table)


def shortened(value: Any) -> str:
    """A value as JSON has it, cut to what a sentence can hold."""
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def _problem(name: str, value: Any, hint: Any) -> str:
    """What a value should be, where it is not."""
    if value is None and NoneType in get_args(hint):
        return ""
    plain = tuple(get_origin(option) or option for option in alternatives(hint))
    if type(value) is int and float in plain:
        plain = (*plain, int)
    if type(value) not in plain:
        return " or ".join(WORDS.get(option, option.__name__) for option in plain)
    if isinstance(value, dict):
        numbers = all(type(item) in (int, float) for item in value.values())
        return "" if numbers or get_args(hint)[1:] not in ((float,), (int,)) else "a table of numbers"
    if type(value) in (int, float) and name not in UNBOUNDED:
        least, most = LEAST.get(name, 0), MOST.get(name, 2**63 - 1)
        return "" if least <= value <= most else f"from {literal(least)} to {literal(most)}"
    return "finite" if isinstance(value, float) and not math.isfinite(value) else ""
