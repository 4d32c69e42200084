"""The name that was meant, where a path does not exist and something beside it is called nearly so."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

MOST_NAMES = 10_000  # of a folder that are looked at


def nearest(word: str, known: Iterable[str]) -> str:
    """The known word most like this one, or "" where none is."""
    return next(iter(difflib.get_close_matches(word, list(known), n=1)), "")


def meant_path(path: Path) -> str:
    """`(did you mean runs/demo?)` with a space before it for a path that exists but for a slip in one name."""
    parts = list(path.parts)
    there = next((n for n in range(len(parts)) if not os.path.lexists(Path(*parts[: n + 1]))), len(parts))
    if there == len(parts):
        return ""
    folder = Path(*parts[:there]) if there else Path(".")
    try:
        with os.scandir(folder) as entries:
            name = nearest(parts[there], (entry.name for entry in islice(entries, MOST_NAMES)))
    except OSError:
        return ""
    meant = Path(*parts[:there], name, *parts[there + 1 :])
    return f" (did you mean {meant}?)" if name and meant.exists() else ""
