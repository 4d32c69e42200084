"""From a table of settings to the dataclasses it describes, strictly.

    run, table = resolve(Run, read_recipe("demo"))

Every field of a dataclass is one key. A field that is itself a dataclass is a sub-table; a `choice` is a sub-table
whose `name` picks the component; `choices` are a table of such sub-tables. A preset (an option that is an instance)
gives its own values as defaults. The table that comes back has every key filled in; resolving it again gives the same
object. TOML has no word for None: such a key is left out of it.

Nothing is guessed: an unknown key, a wrong type or a refused value is an error that says where it was written.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar, get_type_hints

from equipoise.settings.bounds import require_finite, require_within
from equipoise.settings.choice import CHOICES, DEFAULT, MANY
from equipoise.settings.layers import LayeredTable, shown, suggestion
from equipoise.settings.trust import WRITES, current_trust
from equipoise.settings.values import Mismatch, alternatives, convert, expected
from equipoise.types import UserError

T = TypeVar("T")
FULL_NAME = re.compile(r"\w+(\.\w+)*:\w+(\.\w+)*")  # package.module:attribute


def resolve(cls: type[T], table: LayeredTable) -> tuple[T, dict[str, Any]]:
    """The object a table describes, and the same table with every key filled in."""
    return _build(cls, None, table)


def _build(cls: type[T], preset: T | None, table: LayeredTable) -> tuple[T, dict[str, Any]]:
    """One dataclass, with the values of `preset`, where there is one, as defaults."""
    parts = {part.name: part for part in fields(cls) if part.init}  # type: ignore[arg-type]
    for name in table.names():
        if name not in parts:
            ending = suggestion(name, list(parts))
            raise table.error(f'unknown key "{table.full(name)}"; {ending}', name)
    hints = _types(cls)
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


@cache
def _types(cls: type) -> dict[str, Any]:
    """The annotations of a class; evaluating them is most of the time of resolving."""
    return get_type_hints(cls)


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
    """The component a choice's `name` picks, built from the other keys of its table."""
    options = part.metadata[CHOICES]
    usual = None if preset is None else getattr(preset, part.name)
    usual_name = part.metadata[DEFAULT] if preset is None else _name_of(usual, options)
    inner = table.child(part.name)
    name, table = inner.chosen(usual_name)
    if usual is not None and name == usual_name:
        current_trust().code.add(name)  # for stored settings will name it
        option = usual
    else:
        option = _option(name, options, table, inner.trusts("name"))
    value, full = _component(option, table)
    assert "name" not in full, f"{type(value)} cannot be a choice: its field `name` would hide the choice's own"
    return value, {"name": name, **full}


def _chosen_many(part: Field[Any], table: LayeredTable) -> tuple[dict[str, Any], dict[str, Any]]:
    """A component for each sub-table, by the name of that."""
    options, default = part.metadata[CHOICES], part.metadata[DEFAULT]
    values, full = {}, {}
    for key in table.names():
        name, inner = table.child(key).chosen(default)
        option = _option(name, options, inner, table.child(key).trusts("name"))
        values[key], entry = _component(option, inner)
        full[key] = {"name": name, **entry}
    return values, full


def _component(option: Any, table: LayeredTable) -> tuple[Any, dict[str, Any]]:
    """A dataclass, or a preset with some of its values changed."""
    return _build(option, None, table) if isinstance(option, type) else _build(type(option), option, table)


def _name_of(value: Any, options: Mapping[str, Any]) -> str:
    """The name of the option that a value of a preset comes from."""
    same = [name for name, option in options.items() if option == value]
    kind = [name for name, option in options.items() if type(value) in (_schema(option), type(option))]
    return (same + kind + [f"{type(value).__module__}:{type(value).__qualname__}"])[0]


def _option(name: str, options: Mapping[str, Any], table: LayeredTable, trusted: bool) -> Any:
    """The dataclass or preset that a name stands for; `trusted` says whether the user wrote the name."""
    if name in options:
        return _schema(options[name])
    chosen = ".".join(table.key)
    if not FULL_NAME.fullmatch(name):
        ending = suggestion(name, list(options))
        raise table.error(f'unknown choice "{name}" for "{chosen}"; {ending}', "name")
    _require_trust(name, chosen, table, trusted)
    module, _, attribute = name.partition(":")
    try:
        option = _schema(attrgetter(attribute)(importlib.import_module(module)))
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
        hints = _types(cls)
        for part in parts:
            if CHOICES not in part.metadata:
                [expected(hint) for hint in alternatives(hints[part.name]) if not is_dataclass(hint)]
    except (NameError, TypeError, KeyError) as error:
        return f"the types of its fields are not those of settings ({error})"
    return 'it has a field "name"' if any(part.name == "name" for part in parts) else ""


def _schema(option: Any) -> Any:
    """The dataclass that holds a component's settings: itself, or its nested `Config`."""
    return option if is_dataclass(option) else getattr(option, "Config", None)


def _construct(cls: type[T], values: Mapping[str, Any], table: LayeredTable) -> T:
    try:
        return cls(**values)
    except ValueError as error:
        blamed = [name for name in table.newest_first() if re.search(rf"\b{re.escape(name)}\b", str(error))]
        subject = f"{'.'.join(table.key)}: " if table.key else ""
        raise UserError(f"{table.where(*blamed[:1])}: {subject}{error}") from error
