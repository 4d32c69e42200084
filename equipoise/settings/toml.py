r"""What `tomllib` leaves out: the line a key was written on, and writing TOML.

The scanner needs no grammar of its own, because it only ever reads text that `tomllib` has already accepted. It cuts
the text into tokens, the tokens into statements (a newline outside brackets ends one), and looks at the keys alone:

    [training]            -> ("training",)           line 1
    schedule.warmup = 3   -> ("training", "schedule", "warmup")   line 2

Keys inside an inline table share the line of the key that holds it.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from itertools import dropwhile, takewhile
from typing import Any

Key = tuple[str, ...]
Token = tuple[str, str]  # kind, text

TOKEN = re.compile(
    r'''
      (?P<comment> \# [^\n]* )
    | (?P<value> """ (?: [^\\] | \\. )*? "{3,5} | \'\'\' .*? '{3,5} )
    | (?P<quoted> " (?: [^"\\\n] | \\. )* " | ' [^'\n]* ' )
    | (?P<newline> \n )
    | (?P<mark> [\[\]{}=.,] )
    | (?P<bare> [A-Za-z0-9_-]+ )
    | (?P<other> . )
    ''',
    re.VERBOSE | re.DOTALL,
)
OPENING, DOT = ("mark", "["), ("mark", ".")
BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def key_lines(text: str) -> dict[Key, int]:
    """The line, from 1, where each key and each table of valid TOML text first appears."""
    lines: dict[Key, int] = {}
    table: Key = ()
    for line, tokens in _statements(text):
        is_header = tokens[0] == OPENING
        key = _key(tokens) if is_header else table + _key(tokens)
        table = key if is_header else table
        for depth in range(1, len(key) + 1):
            lines.setdefault(key[:depth], line)
    return lines


def _statements(text: str) -> Iterator[tuple[int, list[Token]]]:
    """The line and the tokens of each header and each `key = value`, without spaces and comments."""
    line = start = 1
    depth = 0
    tokens: list[Token] = []
    for match in TOKEN.finditer(text + "\n"):
        kind, token = str(match.lastgroup), match.group()
        if kind == "newline" and depth == 0:
            if tokens:
                yield start, tokens
            tokens = []
        elif kind not in ("comment", "newline", "other"):
            start = start if tokens else line
            tokens.append((kind, token))
            depth += (token in ("[", "{")) - (token in ("]", "}"))
        line += token.count("\n")


def _key(tokens: list[Token]) -> Key:
    """The key a statement opens with, after the brackets of a header."""
    rest = dropwhile(OPENING.__eq__, tokens)
    parts = takewhile(lambda token: token[0] in ("bare", "quoted") or token == DOT, rest)
    return tuple(_unquoted(*part) for part in parts if part != DOT)


def _unquoted(kind: str, text: str) -> str:
    return text if kind == "bare" else str(tomllib.loads(f"key = {text}")["key"])


def dump(table: Mapping[str, Any]) -> str:
    """TOML text of a nested mapping; `tomllib.loads` gives the same mapping back, tuples as lists."""
    return "\n\n".join(_blocks(table, ())) + "\n"


def _blocks(table: Mapping[str, Any], key: Key) -> Iterator[str]:
    """The table's own values under its header, then its sub-tables: TOML wants them in this order."""
    values = {name: value for name, value in table.items() if not isinstance(value, Mapping)}
    if key and (values or not table):
        header = f"[{'.'.join(map(_key_text, key))}]"
        yield "\n".join([header, *_assignments(values)])
    elif values:
        yield "\n".join(_assignments(values))
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from _blocks(value, (*key, name))


def _assignments(values: Mapping[str, Any]) -> Iterator[str]:
    return (f"{_key_text(name)} = {literal(value)}" for name, value in values.items())


def _key_text(name: str) -> str:
    return name if BARE_KEY.fullmatch(name) else literal(name)


def literal(value: Any) -> str:
    """One value as TOML writes it."""
    match value:
        case bool():
            return str(value).lower()
        case int():
            return str(int(value))
        case float():
            return repr(float(value))
        case str():
            quoted = json.dumps(value, ensure_ascii=False)
            return quoted.replace("\x7f", "\\u007f")  # JSON leaves DEL as it is, TOML forbids that
        case list() | tuple():
            return f"[{', '.join(map(literal, value))}]"
        case Mapping():
            return f"{{{', '.join(_assignments(value))}}}"
    raise TypeError(f"TOML cannot hold {value!r} of type {type(value).__name__}")
