"""Strict reading of another library's config: every field is understood, or raises UserError.

Fields that are ignored in silence are how a model comes to give other vectors than its author's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from equipoise.settings.layers import shown, suggestion
from equipoise.types import UserError

Fields = dict[str, Any]
LARGEST = 2**31 - 1


def read_fields(
    config: Any,
    where: str,
    defaults: Mapping[str, Any],
    only: Mapping[str, tuple[Any, ...]],
    without_effect: Collection[str] = (),
) -> Fields:
    """Values of the fields in `defaults`, each of its default's type. Fields in `only` may have these values and no
    others; those `without_effect` are ignored; any other raises UserError."""
    if not isinstance(config, Mapping):
        raise UserError(f"{where} must be a table of settings, not {config!r}")
    for name, value in config.items():
        if name in only and value not in only[name]:
            raise UserError(f"{where}: {name} is {value!r}, but only {_shown(only[name])} can be read")
        if name not in only and name not in defaults and name not in without_effect:
            raise UserError(f"{where}: the key {name!r} is unknown; {suggestion(name, [*defaults, *only])}")
    return {name: _typed(config.get(name, default), default, f"{where}: {name}") for name, default in defaults.items()}


def _typed(value: Any, default: Any, where: str) -> Any:
    _require_sane(value, where)
    if isinstance(default, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    wrong = not isinstance(value, type(default)) or isinstance(value, bool) != isinstance(default, bool)
    if default is not None and wrong:
        raise UserError(f"{where} is {value!r}, but must be {_kind(default)}")
    if type(default) in (int, float) and default > 0 >= value:
        raise UserError(f"{where} is {value!r}, but must be larger than 0")
    return value


def _require_sane(value: Any, where: str) -> None:
    if isinstance(value, int) and abs(value) > LARGEST:
        raise UserError(f"{where} is {shown(value)}, larger than a model can have")


def positive_int(value: Any, where: str) -> int:
    """`value`, which must be a positive whole number."""
    _require_sane(value, where)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UserError(f"{where} must be a whole number from 1 on, not {value!r}")
    return value


def square_side(size: Any, where: str) -> int:
    """Side of a square size: one number, or the same number twice."""
    sides = size if isinstance(size, list) else [size]
    if any(other != sides[0] for other in sides):
        raise UserError(f"{where} is {size!r}, but only squares can be read")
    return positive_int(sides[0] if sides else None, where)


def _kind(default: Any) -> str:
    kinds = {bool: "true or false", int: "a whole number", float: "a number", str: "text", list: "a list"}
    return kinds.get(type(default), "a table")


def _shown(values: tuple[Any, ...]) -> str:
    return " or ".join(map(repr, values))
