"""The range of every number in a recipe.

    mlp_ratio: float = bounded(4.0, 0.01, 64)

A number without bounds of its own has those of its kind, which keep it within what tensors, timers and 32-bit indices
can hold. A list has its bounds item by item. Numbers are finite always.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field
from typing import Any

from equipoise.settings.toml import literal
from equipoise.settings.values import Mismatch, expected

BOUNDS = "bounds"  # key of a field's metadata


@dataclass(frozen=True)
class Bounds:
    """Both ends belong to the range."""

    least: float
    most: float


BY_KIND: Mapping[type, Bounds] = {int: Bounds(0, 2**31 - 1), float: Bounds(-1e30, 1e30)}
SEED = Bounds(0, 2**63 - 1)
SECONDS = Bounds(0, 1e6)  # timers count milliseconds in 32 bits


def bounded(default: Any = MISSING, least: float = 0, most: float = 2**31 - 1) -> Any:
    """A dataclass field whose numbers lie between `least` and `most`."""
    return within(Bounds(least, most), default)


def within(bounds: Bounds, default: Any = MISSING) -> Any:
    """A dataclass field whose numbers lie within `bounds`."""
    return field(default=default, metadata={BOUNDS: bounds})


def bounds_for(metadata: Mapping[str, Any], number: float) -> Bounds:
    """The bounds of one number of a field: its own, or those of its kind."""
    return metadata.get(BOUNDS) or BY_KIND[type(number)]


def require_finite(value: Any) -> None:
    """Raise Mismatch for nan and inf, in a list as well."""
    if not all(map(math.isfinite, _numbers(value))):
        raise Mismatch("finite (neither inf nor nan)")


def require_within(value: Any, hint: Any, metadata: Mapping[str, Any]) -> None:
    """Raise Mismatch where a number of the value is out of the field's bounds."""
    for number in _numbers(value):
        bounds = bounds_for(metadata, number)
        if not bounds.least <= number <= bounds.most:
            raise Mismatch(f"{expected(hint)}, from {literal(bounds.least)} to {literal(bounds.most)}")


def _numbers(value: Any) -> Iterator[float]:
    for item in value if isinstance(value, tuple) else (value,):
        if isinstance(item, tuple):
            yield from _numbers(item)
        elif isinstance(item, int | float) and not isinstance(item, bool):
            yield item
