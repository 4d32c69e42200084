"""A file of JSON lines that grows while long work is done, and goes on where it was left.

    captions.jsonl           one object a line
    captions.jsonl.made      the settings that made them, as JSON: lines of other settings never land in the same file

A line counts once it is whole: what a killed writer left of the last one is cut off before anything is added.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from equipoise.io.atomic import CannotWrite
from equipoise.io.json_files import kind_of
from equipoise.io.resumable import claim
from equipoise.types import UserError

MADE = ".made"


class JsonLines:
    """The file at `path`, of settings `note`; `lines` are those that were there."""

    def __init__(self, path: Path, note: Mapping[str, Any]):
        self.path = path
        made = path.with_name(path.name + MADE)
        if path.is_dir():
            raise UserError(f"{path} is a folder; name a file for --out")
        if path.exists() and path.stat().st_size and not made.exists():
            raise UserError(f"{path} is there already, and {made.name} is not, which says how it was made; move it")
        claim(path.parent, note, made.name, path)
        self.lines = _whole_lines(path)

    def append(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Add objects, which are on the disk when this returns."""
        text = "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise CannotWrite(self.path, error.strerror or str(error)) from error


def _whole_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of the file, which is cut behind its last whole line."""
    if not path.exists():
        return []
    try:
        content = path.read_bytes()
        end = content.rfind(b"\n") + 1
        if end < len(content):
            os.truncate(path, end)
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}; check the disk") from error
    return [_object(line, path, number) for number, line in enumerate(content[:end].splitlines(), 1)]


def _object(line: bytes, path: Path, number: int) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}, line {number}: this is no JSON ({error}); remove the file to start anew") from None
    if not isinstance(found, dict):
        raise UserError(f"{path}, line {number}: this is {kind_of(found)}, not a table; remove the file to start anew")
    return found
