"""Answers to mistakes: one sentence and a status, in which no path of the server stands.

Sentences of the package name files, which is right on a terminal and wrong on a network. What is answered keeps the
last part of every path; the whole sentence goes to the log of whoever runs the service.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from equipoise.types import UserError

PATH = re.compile(r"""(?:[^\s"'(,;=]*[/\\])+([^\s"'(),;/\\]*)""")
UNEXPECTED = "something went wrong here; whoever runs this service finds the reason in its log"


class Refused(UserError):
    """A mistake with the HTTP status that it is answered with."""

    def __init__(self, code: int, sentence: str):
        super().__init__(sentence)
        self.code = code


class Paths:
    """Takes paths out of sentences: first the folders that are known, for those may have blanks in their names."""

    def __init__(self, known: Iterable[Path] = ()):
        places = {str(form) for path in (*known, Path.cwd(), Path.home()) for form in (path, path.resolve())}
        self.known = sorted(places - {".", "/"}, key=len, reverse=True)

    def without(self, sentence: str) -> str:
        for place in self.known:
            name = Path(place).name
            sentence = re.sub(rf"{re.escape(place)}(?=$|[\s/\\\"'),;:.])", name, sentence)
        return PATH.sub(lambda found: found[1] or "...", " ".join(sentence.split()))


def shown_name(key: str) -> str:
    """The key of a record for people: a path is cut to the name of its file where it leads anywhere on the disk."""
    outside = key.startswith(("/", "\\", "~")) or ".." in key.split("/") or "://" in key or key[1:2] == ":"
    return re.split(r"[/\\]", key)[-1] if outside else key


def shown_side(value: Any) -> Any:
    """Side data for people: texts that are paths of a disk are cut as well."""
    if isinstance(value, str):
        return shown_name(value) if value.startswith(("/", "\\\\", "~")) or value[1:3] in (":\\", ":/") else value
    if isinstance(value, Mapping):
        return {name: shown_side(inner) for name, inner in value.items()}
    return [shown_side(inner) for inner in value] if isinstance(value, list | tuple) else value
