"""`--set KEY=VALUE`: the settings of the command line as one layer.

--set training.steps=500 --set name=mine     a value is TOML, or a bare word as text
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from typing import Any

from equipoise.settings.layers import DEEPEST, TOO_DEEP, Layer, require_shallow, require_short_keys, shown
from equipoise.settings.one_line import one_line
from equipoise.settings.toml import Key, key_lines
from equipoise.types import UserError


def command_line(overrides: Iterable[str], source: str) -> Layer:
    """Parse all `--set` texts into one layer: their order is free, except that the last of one key wins."""
    values: dict[str, Any] = {}
    places: dict[Key, str] = {}
    for text in overrides:
        _require_text(text)
        written, equals, value = text.partition("=")
        key = _parsed_key(written, f"--set {one_line(written.strip())}")
        if not equals or not key:
            raise UserError(
                f"--set {one_line(text.strip())}: this is not of the form key=value; write for example --set a.b=100"
            )
        place = f"--set {one_line(written.strip())}"
        if len(key) > DEEPEST:
            raise UserError(f"{place[:60]}...: {TOO_DEEP}")
        places |= {key[:depth]: place for depth in range(1, len(key) + 1)}
        table = values
        for name in key[:-1]:
            table = table.setdefault(name, {})
            if not isinstance(table, dict):
                raise UserError(f'{place}: "{name}" was already set to {shown(table)}; leave out one of the two')
        table[key[-1]] = _parsed_value(value.strip(), place)
    return Layer(source, values, places, trusted=True)


def _require_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:  # bytes of the command line that are not UTF-8 arrive as surrogates
        raise UserError(f"--set {one_line(text.strip())}: this is not UTF-8 text; write it in UTF-8") from None


def _parsed_key(text: str, place: str) -> Key:
    """A key as TOML reads it, dotted or quoted; empty where it is none."""
    try:
        require_short_keys(text)
    except RecursionError:
        raise UserError(f"{place[:60]}...: {TOO_DEEP}") from None
    try:
        tomllib.loads(f"{text} = 0")
    except (ValueError, RecursionError):
        return ()
    return max(key_lines(f"{text} = 0"), key=len, default=())


def _parsed_value(text: str, place: str) -> Any:
    """A TOML value, or a bare word as text."""
    try:
        require_short_keys(text)
        parsed = tomllib.loads(f"value = {text}")
        require_shallow(parsed)
    except RecursionError:
        raise UserError(f"{place}: {TOO_DEEP}") from None
    except ValueError:
        return text
    return parsed["value"] if len(parsed) == 1 else text
