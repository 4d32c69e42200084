"""Differences between two resolved tables of settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from equipoise.settings.layers import shown

MOST = 4  # differences listed in one sentence


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Old and new value of every key that differs, by its full name; None where it is absent."""
    before, after = dict(_flat(old)), dict(_flat(new))
    keys = dict.fromkeys((*before, *after))
    return {key: (before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)}


def told(changes: Mapping[str, tuple[Any, Any]], there: str = "there", here: str = "here") -> str:
    """Describe the differences as part of a sentence; `there` and `here` say where the old and the new values are."""
    first = list(changes.items())[:MOST]
    listed = [f"{key} is {_value(old)} {there} and {_value(new)} {here}" for key, (old, new) in first]
    rest = len(changes) - len(listed)
    return ", ".join(listed) + (f", and {rest} more differ" if rest else "")


def _value(value: Any) -> str:
    return "absent" if value is None else shown(value)


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", list(value) if isinstance(value, tuple) else value
