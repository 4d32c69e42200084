"""The papers a run rests on.

A component names them by key, on its dataclass or on the class its `Config` is nested in:

    cites: ClassVar[tuple[str, ...]] = ("radford2021clip",)

or by a property, where that depends on its settings. The entries are in `references.bib`. `bibliography` walks
whatever was built, a whole run for instance, and collects.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from importlib.resources import files
from operator import attrgetter

from equipoise.types import UserError

ENTRY = re.compile(r"^@\w+\{\s*([^\s,{}]+)\s*,", re.MULTILINE)


def bibliography(*objects: object) -> str:
    """The bibtex entries that the objects and all their parts cite, once each, in order of appearance."""
    known = references()
    entries = {}
    for part in objects:
        for key, owner in _citations(part):
            if key not in known:
                raise UserError(f'{owner} cites "{key}", which is not in references.bib; add its bibtex entry there')
            entries[key] = known[key]
    return "\n\n".join(entries.values())


@cache
def references() -> Mapping[str, str]:
    """Every bibtex entry the project knows, by key."""
    return parse_bibtex((files("equipoise") / "references.bib").read_text("utf-8"))


def parse_bibtex(text: str) -> dict[str, str]:
    """Entries by key; one reaches from its @ to the brace that closes it."""
    entries: dict[str, str] = {}
    for match in ENTRY.finditer(text):
        assert match[1] not in entries, f"two bibtex entries are called {match[1]}"
        entries[match[1]] = text[match.start() : _closing_brace(text, match.start())]
    return entries


def _closing_brace(text: str, start: int) -> int:
    depth = 0
    for brace in re.compile(r"[{}]").finditer(text, start):
        depth += 1 if brace.group() == "{" else -1
        if depth == 0:
            return brace.end()
    raise AssertionError(f"a bibtex entry is not closed: {text[start : start + 40]!r}")


def _citations(part: object) -> Iterator[tuple[str, str]]:
    """(key, name of the class that cites it) of a dataclass and, in depth, of its fields and their items."""
    if is_dataclass(part) and not isinstance(part, type):
        keys = (*getattr(_owner(type(part)), "cites", ()), *getattr(part, "cites", ()))
        yield from ((key, type(part).__qualname__) for key in keys)
        for field in fields(part):
            yield from _citations(getattr(part, field.name))
    elif isinstance(part, list | tuple):
        for item in part:
            yield from _citations(item)
    elif isinstance(part, Mapping):
        yield from _citations(list(part.values()))


def _owner(cls: type) -> type | None:
    """The class that a `Config` is nested in; nothing for a class at the top of its module."""
    outer, _, _ = cls.__qualname__.rpartition(".")
    if not outer or outer.endswith("<locals>"):
        return None
    return attrgetter(outer)(sys.modules[cls.__module__])
