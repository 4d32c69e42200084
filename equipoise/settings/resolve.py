"""From a table of settings to the dataclasses it describes, strictly.

    run, table = resolve(Run, read_recipe("demo"))

Every field of a dataclass is one key. A field that is itself a dataclass is a sub-table; a `choice` is a sub-table
whose `name` picks the component; `choices` are a table of such sub-tables. A preset (an option that is an instance)
gives its own values as defaults. The table that comes back has every key filled in; resolving it again gives the same
object. TOML has no word for None: such a key is left out of it.

Nothing is guessed: an unknown key, a wrong type or a refused value is an error that says where it was written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import Any, TypeVar

from equipoise.settings.bounds import require_finite, require_within
from equipoise.settings.choice import CHOICES, DEFAULT, MANY
from equipoise.settings.layers import LayeredTable, shown, suggestion
from equipoise.settings.options import find_option, schema, types_of
from equipoise.settings.trust import WRITES, current_trust
from equipoise.settings.values import Mismatch, alternatives, convert
from equipoise.types import UserError

T = TypeVar("T")


def resolve(cls: type[T], table: LayeredTable) -> tuple[T, dict[str, Any]]:
    """Build the object a table describes; also return the table with every key filled in."""
    return _build(cls, None, table)


def _build(cls: type[T], preset: T | None, table: LayeredTable) -> tuple[T, dict[str, Any]]:
    """Build one dataclass, with the values of `preset`, where there is one, as defaults."""
    parts = {part.name: part for part in fields(cls) if part.init}  # type: ignore[arg-type]
    for name in table.names():
        if name not in parts:
            ending = suggestion(name, list(parts))
            raise table.error(f'unknown key "{table.full(name)}"; {ending}', name)
    hints = types_of(cls)  # type: ignore[arg-type]
    values, full = {}, {}
    for name, part in parts.items():
        values[name], entry = _part(part, hints[name], preset, table)
        if entry is not None:
            full[name] = entry
    built = _construct(cls, values, table)  # first, for its own sentences say more than bounds do
    for name, part in parts.items():
        if name in table:
            _require_bounds(part, hints[name], values[name], table)
    return built, full


def _part(part: Field[Any], hint: Any, preset: Any, table: LayeredTable) -> tuple[Any, Any]:
    """The value of one field, and its entry in the full table."""
    if MANY in part.metadata:
        return _chosen_many(part, table.child(part.name))
    if CHOICES in part.metadata:
        return _chosen(part, preset, table)
    default = _default(part, preset)
    nested: list[Any] = [option for option in alternatives(hint) if is_dataclass(option)]
    if nested and (default is not None or part.name in table):
        return _component(default if is_dataclass(default) else nested[0], table.child(part.name))
    value = _plain(part.name, hint, default, table)
    entry = list(value) if isinstance(value, tuple) else value
    return _allowed(part, value, table), entry


def _allowed(part: Field[Any], value: Any, table: LayeredTable) -> Any:
    """The value as the object may have it: a folder to write to only where the user named it."""
    trust = current_trust()
    if part.name in table and table.trusts(part.name):
        trust.add_commands(value)
        if WRITES in part.metadata:
            trust.folders.add(value)
    elif part.name in table and WRITES in part.metadata and value not in trust.folders:
        return part.default
    return value


def _plain(name: str, hint: Any, default: Any, table: LayeredTable) -> Any:
    if name not in table:
        if default is MISSING:
            raise table.error(f'the key "{table.full(name)}" is missing; it has no default')
        return default
    try:
        value = convert(table[name], hint)
        require_finite(value)
    except Mismatch as error:
        raise _mismatch(name, error, table) from None
    return value


def _require_bounds(part: Field[Any], hint: Any, value: Any, table: LayeredTable) -> None:
    try:
        require_within(value, hint, part.metadata)
    except Mismatch as error:
        raise _mismatch(part.name, error, table) from None


def _mismatch(name: str, error: Mismatch, table: LayeredTable) -> UserError:
    return table.error(f'"{table.full(name)}" must be {error}, found {shown(table[name])}', name)


def _default(part: Field[Any], preset: Any) -> Any:
    if preset is not None:
        return getattr(preset, part.name)
    return part.default if part.default_factory is MISSING else part.default_factory()


def _chosen(part: Field[Any], preset: Any, table: LayeredTable) -> tuple[Any, dict[str, Any]]:
    """Build the component that a choice's `name` picks from the other keys of its table."""
    options = part.metadata[CHOICES]
    usual = None if preset is None else getattr(preset, part.name)
    usual_name = part.metadata[DEFAULT] if preset is None else _name_of(usual, options)
    inner = table.child(part.name)
    name, table = inner.chosen(usual_name)
    if usual is not None and name == usual_name:
        current_trust().code.add(name)  # for stored settings will name it
        option = usual
    else:
        option = find_option(name, options, table, inner.trusts("name"))
    value, full = _component(option, table)
    assert "name" not in full, f"{type(value)} cannot be a choice: its field `name` would hide the choice's own"
    return value, {"name": name, **full}


def _chosen_many(part: Field[Any], table: LayeredTable) -> tuple[dict[str, Any], dict[str, Any]]:
    """Build one component per sub-table, by the sub-table's name."""
    options, default = part.metadata[CHOICES], part.metadata[DEFAULT]
    values, full = {}, {}
    for key in table.names():
        name, inner = table.child(key).chosen(default)
        option = find_option(name, options, inner, table.child(key).trusts("name"))
        values[key], entry = _component(option, inner)
        full[key] = {"name": name, **entry}
    return values, full


def _component(option: Any, table: LayeredTable) -> tuple[Any, dict[str, Any]]:
    """Build a dataclass, or a preset with some of its values changed."""
    return _build(option, None, table) if isinstance(option, type) else _build(type(option), option, table)


def _name_of(value: Any, options: Mapping[str, Any]) -> str:
    """The name of the option that a value of a preset comes from."""
    same = [name for name, option in options.items() if option == value]
    kind = [name for name, option in options.items() if type(value) in (schema(option), type(option))]
    return (same + kind + [f"{type(value).__module__}:{type(value).__qualname__}"])[0]


def _construct(cls: type[T], values: Mapping[str, Any], table: LayeredTable) -> T:
    try:
        return cls(**values)
    except ValueError as error:
        blamed = [name for name in table.newest_first() if re.search(rf"\b{re.escape(name)}\b", str(error))]
        subject = f"{'.'.join(table.key)}: " if table.key else ""
        raise UserError(f"{table.where(*blamed[:1])}: {subject}{error}") from error
