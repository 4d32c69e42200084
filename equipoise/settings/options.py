"""The dataclass or preset that a choice's `name` stands for: one of its options, or a class imported by its full name.

Full names, `package.module:attribute`, are imported only where the user named them or trusts the package (`trust.py`).
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from operator import attrgetter
from typing import Any, get_type_hints

from equipoise.settings.choice import CHOICES
from equipoise.settings.layers import LayeredTable, suggestion
from equipoise.settings.trust import current_trust
from equipoise.settings.values import alternatives, expected

FULL_NAME = re.compile(r"\w+(\.\w+)*:\w+(\.\w+)*")  # package.module:attribute


def find_option(name: str, options: Mapping[str, Any], table: LayeredTable, trusted: bool) -> Any:
    """The dataclass or preset that a name stands for; `trusted` says whether the user wrote the name."""
    if name in options:
        return schema(options[name])
    chosen = ".".join(table.key)
    if not FULL_NAME.fullmatch(name):
        ending = suggestion(name, list(options))
        raise table.error(f'unknown choice "{name}" for "{chosen}"; {ending}', "name")
    _require_trust(name, chosen, table, trusted)
    module, _, attribute = name.partition(":")
    try:
        option = schema(attrgetter(attribute)(importlib.import_module(module)))
    except (ImportError, AttributeError) as error:
        raise table.error(f'cannot import "{name}" for "{chosen}": {error}', "name") from error
    if not is_dataclass(option):
        raise table.error(f'"{name}" for "{chosen}" is not a dataclass, nor has it a Config that is one', "name")
    if reason := _no_settings(option):
        raise table.error(f'"{name}" for "{chosen}" does not hold settings: {reason}', "name")
    return option


def _require_trust(name: str, chosen: str, table: LayeredTable, trusted: bool) -> None:
    """Import code only where the user named it, or trusts its package."""
    if trusted:
        current_trust().code.add(name)
    elif not current_trust().may_import(name):
        package = name.partition(":")[0].partition(".")[0]
        raise table.error(
            f'"{chosen}" is the Python code "{name}", which stored settings may not import by themselves; if you trust '
            f'it, add --trust {package}, or eq.load(..., trust=("{package}",))',
            "name",
        )


def _no_settings(option: Any) -> str:
    """Why a dataclass that was imported cannot be read from a table; empty where it can."""
    cls = option if isinstance(option, type) else type(option)
    parts = [part for part in fields(cls) if part.init]
    try:
        hints = types_of(cls)
        for part in parts:
            if CHOICES not in part.metadata:
                [expected(hint) for hint in alternatives(hints[part.name]) if not is_dataclass(hint)]
    except (NameError, TypeError, KeyError) as error:
        return f"the types of its fields are not those of settings ({error})"
    return 'it has a field "name"' if any(part.name == "name" for part in parts) else ""


def schema(option: Any) -> Any:
    """The dataclass that holds a component's settings: itself, or its nested `Config`."""
    return option if is_dataclass(option) else getattr(option, "Config", None)


@cache
def types_of(cls: type) -> dict[str, Any]:
    """The annotations of a class; evaluating them is most of the time of resolving."""
    return get_type_hints(cls)
