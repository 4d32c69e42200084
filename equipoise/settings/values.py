"""One TOML value against one annotation: the types a setting may have, with nothing converted that could surprise.

    int, float (whole numbers are fine), bool, str, Literal[...], tuple[X, ...], tuple[X, Y], and unions of these

A bool is no number, 1.0 is no integer, "3" is neither.
"""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from equipoise.settings.toml import literal

NAMES = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


class Mismatch(Exception):
    """A value that does not fit; the message is what was expected."""


def convert(value: Any, hint: Any) -> Any:
    """Convert a value to its annotation: whole numbers become floats, lists become tuples; raise Mismatch otherwise."""
    for option in alternatives(hint):
        try:
            return _convert(value, option)
        except Mismatch:
            continue
    raise Mismatch(expected(hint))


def alternatives(hint: Any) -> tuple[Any, ...]:
    """The members of a union, without None, which TOML cannot write; otherwise the annotation alone."""
    members = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return tuple(member for member in members if member is not NoneType)


def _convert(value: Any, hint: Any) -> Any:
    if get_origin(hint) is Literal:
        return _one_of(value, hint)
    if get_origin(hint) is tuple:
        return _tuple(value, hint)
    if hint is float and type(value) is int:
        return _as_float(value)
    if hint not in NAMES:
        raise TypeError(f"a setting cannot be of type {hint}")
    if type(value) is not hint:  # not isinstance: True is an int to Python, but not to a person
        raise Mismatch
    return value


def _one_of(value: Any, hint: Any) -> Any:
    if not any(value == option and type(value) is type(option) for option in get_args(hint)):
        raise Mismatch
    return value


def _tuple(value: Any, hint: Any) -> tuple[Any, ...]:
    members = get_args(hint)
    if not isinstance(value, list):
        raise Mismatch
    if members[-1] is Ellipsis:
        members = (members[0],) * len(value)
    if len(members) != len(value):
        raise Mismatch
    return tuple(convert(item, member) for item, member in zip(value, members, strict=True))


def _as_float(value: int) -> float:
    try:
        return float(value)
    except OverflowError as error:
        raise Mismatch from error


def expected(hint: Any) -> str:
    """Describe an annotation in words."""
    return " or ".join(map(_expected, alternatives(hint)))


def _expected(hint: Any) -> str:
    members = get_args(hint)
    if get_origin(hint) is Literal:
        return ("one of " if len(members) > 1 else "") + ", ".join(map(literal, members))
    if get_origin(hint) is not tuple:
        return NAMES[hint]
    if members[-1] is Ellipsis:
        return f"a list, each item {expected(members[0])}"
    return f"a list of {len(members)}: {', '.join(map(expected, members))}"
