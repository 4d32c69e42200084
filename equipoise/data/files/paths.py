"""From what a recipe says of its files to the files themselves: lists, {00000..00099}, * and URLs."""

from __future__ import annotations

import glob
from pathlib import Path

from equipoise.data.braces import expand_braces
from equipoise.data.urls import URL, fetched
from equipoise.types import UserError

Patterns = str | tuple[str, ...]


def as_tuple(patterns: Patterns) -> tuple[str, ...]:
    """One pattern or a list of them, empty ones left out."""
    return tuple(filter(None, (patterns,) if isinstance(patterns, str) else patterns))


def find_files(patterns: Patterns, root: str = "", cache: str = "", folder_ending: str = ".tar") -> list[Path]:
    """The files that patterns stand for, in order; a folder stands for the files in it that end so."""
    found: list[Path] = []
    for pattern in as_tuple(patterns):
        for name in expand_braces(pattern):
            found += [fetched(name, cache)] if URL.match(name) else _local(name, root, pattern, folder_ending)
    return found


def _local(name: str, root: str, pattern: str, folder_ending: str) -> list[Path]:
    path = Path(root) / name
    if path.is_dir():
        inside = sorted(path.glob(f"*{folder_ending}"))
        if not inside:
            raise UserError(f"{path}: there is no file in this folder that ends in {folder_ending}; check the path")
        return inside
    if path.is_file():
        return [path]
    matches = sorted(glob.glob(str(path))) if glob.has_magic(name) else []
    if not matches:
        written = f' (from "{pattern}")' if pattern != name else ""
        raise UserError(f"{path}: there is no such file{written}; check the path")
    return [Path(match) for match in matches]
