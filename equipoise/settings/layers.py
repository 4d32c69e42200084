"""A table of settings as layers that remember where each key was written.

A recipe, the recipe it extends and the command line are each a `Layer`; a `LayeredTable` stacks them, oldest first, and
the newest layer that has a key wins. They are not merged on reading, because only the dataclass that a table describes
(see `resolve.py`) knows which keys belong together: when a newer layer chooses another component by `name`, what older
layers wrote for the former component must go.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from equipoise.settings.toml import Key, key_lines, literal
from equipoise.types import UserError

DEEPEST = 32  # tables and lists within each other
TOO_DEEP = f"tables and lists lie in each other more than {DEEPEST} deep; no setting is so deep"
PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')"""
DOTTED = re.compile(rf"#[^\n]*+|{PART}(?:[ \t]*+\.[ \t]*+{PART})*+")  # a comment, a key, or what looks like one
MOST_PARTS = 100  # of a key that tomllib is given, which takes the square of the time


@dataclass(frozen=True)
class Layer:
    """Keys that one source wrote, narrowed to one table."""

    source: str  # named by errors that no single key causes
    values: Mapping[str, Any]
    places: Mapping[Key, str]  # full key -> where it was written, as an error names it
    trusted: bool = False  # whether the user named this source; what was stored with a model is not (`trust.py`)

    def narrowed(self, values: Mapping[str, Any]) -> Layer:
        return replace(self, values=values)


@dataclass(frozen=True)
class LayeredTable:
    """Table of settings as a stack of layers, oldest first."""

    layers: tuple[Layer, ...]
    key: Key = ()  # of this table, from the top

    def names(self) -> list[str]:
        return list(dict.fromkeys(name for layer in self.layers for name in layer.values))

    def newest_first(self) -> list[str]:
        """The names of all keys, those of the newest layer first."""
        return list(dict.fromkeys(name for layer in reversed(self.layers) for name in layer.values))

    def __contains__(self, name: str) -> bool:
        return any(name in layer.values for layer in self.layers)

    def __getitem__(self, name: str) -> Any:
        return next(layer.values[name] for layer in reversed(self.layers) if name in layer.values)

    def trusts(self, name: str) -> bool:
        """Whether the value in force was written by a layer that the user named, or by none."""
        return next((layer.trusted for layer in reversed(self.layers) if name in layer.values), True)

    def child(self, name: str) -> LayeredTable:
        """The sub-table `name`, empty where it was not written."""
        for layer in self.layers:
            value = layer.values.get(name, {})
            if not isinstance(value, Mapping):
                hint = f'; to choose one write {self.full(name)}.name = "..."' if isinstance(value, str) else ""
                message = f'"{self.full(name)}" must be a table of keys, found {shown(value)}{hint}'
                raise self._only(layer).error(message, name)
        return LayeredTable(
            tuple(layer.narrowed(layer.values.get(name, {})) for layer in self.layers), (*self.key, name)
        )

    def chosen(self, default: str) -> tuple[str, LayeredTable]:
        """Return the choice in force by `name`, and the other keys without those written for a former choice."""
        current = default
        kept: list[Layer] = []
        for layer in self.layers:
            name = layer.values.get("name", current)
            if not isinstance(name, str):
                raise self._only(layer).error(f'"{self.full("name")}" must be text, found {shown(name)}', "name")
            kept = kept if name == current else []
            kept.append(layer.narrowed({key: value for key, value in layer.values.items() if key != "name"}))
            current = name
        return current, LayeredTable(tuple(kept), self.key)

    def full(self, name: str) -> str:
        return ".".join((*self.key, name))

    def where(self, *names: str) -> str:
        """Place where a key was written, or else the nearest table around it that was written."""
        key = (*self.key, *names)
        for depth in range(len(key), 0, -1):
            for layer in reversed(self.layers):
                if key[:depth] in layer.places:
                    return layer.places[key[:depth]]
        return self.layers[-1].source

    def error(self, message: str, *names: str) -> UserError:
        return UserError(f"{self.where(*names)}: {message}")

    def _only(self, layer: Layer) -> LayeredTable:
        return LayeredTable((layer,), self.key)


def parse(text: str, source: str, trusted: bool = False) -> Layer:
    """Parse TOML text into a layer; `source` names it in errors."""
    try:
        require_short_keys(text)
        values = tomllib.loads(text)
        require_shallow(values)
    except RecursionError:
        raise UserError(f"{source}: {TOO_DEEP}") from None
    except ValueError as error:  # TOMLDecodeError, and integers too long for Python
        message, _, place = str(error).partition(" (at ")
        at_line = re.match(r"line (\d+)", place)
        line = at_line[1] if at_line else text.rstrip().count("\n") + 1
        raise UserError(f"{source}:{line}: not valid TOML: {message}") from error
    return Layer(source, values, {key: f"{source}:{line}" for key, line in key_lines(text).items()}, trusted)


def require_short_keys(text: str) -> None:
    """Raise RecursionError for a key with more parts than tomllib reads in a moment."""
    if any(_parts(match[0]) > MOST_PARTS for match in DOTTED.finditer(text)):
        raise RecursionError


def _parts(dotted: str) -> int:
    return len(re.findall(PART, dotted)) if len(dotted) > MOST_PARTS and dotted[0] != "#" else 1


def require_shallow(values: Any) -> None:
    """Raise RecursionError where tables and lists are nested deeper than any setting is."""
    level = [values]
    for _ in range(DEEPEST):
        level = [inner for outer in level if isinstance(outer, dict | list) for inner in _items(outer)]
    if any(isinstance(value, dict | list) for value in level):
        raise RecursionError


def _items(outer: dict[str, Any] | list[Any]) -> list[Any]:
    return list(outer.values()) if isinstance(outer, dict) else outer


def shown(value: Any) -> str:
    """Format a value as TOML writes it, shortened for a message."""
    if isinstance(value, Mapping):
        return "a table"
    try:
        text = literal(value)
    except TypeError:
        text = str(value)  # dates and times, which no key takes
    except RecursionError:
        text = "lists or tables that lie too deep in each other"
    return text if len(text) <= 60 else f"{text[:57]}..."


def suggestion(word: str, known: Sequence[str]) -> str:
    """Suggest the nearest known word, or list them, as the end of an error message."""
    near = difflib.get_close_matches(word, known, n=1)
    if near:
        return f'did you mean "{near[0]}"?'
    return f"known here: {', '.join(known)}" if known else "nothing can be set here"
