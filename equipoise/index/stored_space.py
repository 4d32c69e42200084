"""A space as the table that a recipe would hold, and back; classes of one's own need trust (`settings/trust.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from equipoise.settings.choice import choice
from equipoise.settings.layers import Layer, LayeredTable
from equipoise.settings.resolve import resolve
from equipoise.spaces import SPACES, Space
from equipoise.types import UserError


@dataclass(frozen=True)
class _Holder:
    space: Space = choice(SPACES, "sphere")


def space_table(space: Space) -> dict[str, Any]:
    """The space as a table: its name and its settings."""
    kind = type(space)
    name = next((name for name, cls in SPACES.items() if cls is kind), f"{kind.__module__}:{kind.__qualname__}")
    return {"name": name, **{part.name: getattr(space, part.name) for part in fields(space) if part.init}}


def space_of(table: Mapping[str, Any], where: str) -> Space:
    """The space of a table that was stored; raises UserError where there is none such."""
    if not isinstance(table, Mapping):
        raise UserError(f"{where}: the space must be a table; make the index again")
    return resolve(_Holder, LayeredTable((Layer(where, {"space": table}, {}),)))[0].space
