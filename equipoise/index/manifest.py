"""`index.json`: what an index is, and which files are of it. Written last, so that an index changes all at once.

format        of these files
kind, dtype   how points are searched and stored
space         a table as recipes have it
model         name and fingerprint of the model whose points these are
segments      folders of rows, each with the SHA-256 of its digests.json
deleted       the file of rows that are no more, and its SHA-256
next_row      the number of the next row
recall        how many of the ten closest were found of queries tried when it was made, beside a search of all
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from equipoise.index.index import ModelNote
from equipoise.index.points import DTYPES
from equipoise.index.stored_space import space_of
from equipoise.io.atomic import write_text
from equipoise.io.json_files import read_json_table
from equipoise.settings.nearby import meant_path
from equipoise.spaces import Space
from equipoise.types import UserError

MANIFEST, FORMAT = "index.json", 1
KINDS = ("exact", "ivf", "hnsw")
HINT = "bring back the file that was saved, or make the index again"


@dataclass(frozen=True)
class Listed:
    """A file or folder of the index, and the SHA-256 that tells it."""

    name: str
    sha256: str


@dataclass(frozen=True)
class Manifest:
    kind: str
    dtype: str
    space: dict[str, Any]
    model: ModelNote
    segments: tuple[Listed, ...] = ()
    deleted: Listed | None = None
    next_row: int = 0
    changes: int = 0  # how often it was written, for names of files
    recall: dict[str, Any] = field(default_factory=dict)
    format: int = FORMAT

    def built_space(self, where: str) -> Space:
        return space_of(self.space, where)

    def changed(self, **parts: Any) -> Manifest:
        return replace(self, changes=self.changes + 1, **parts)

    def write(self, folder: Path) -> None:
        write_text(folder / MANIFEST, json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n")


def read_manifest(folder: Path) -> Manifest:
    """The manifest of an index; raises UserError for a folder that holds none, or one that is not understood."""
    path = folder / MANIFEST
    if not path.is_file():
        raise UserError(
            f"{folder} is no index{meant_path(folder)}: there is no {MANIFEST} in it; make one with `equipoise index`"
        )
    table = read_json_table(path, HINT)
    if table.get("format") != FORMAT:
        raise UserError(
            f"{path} has the format {table.get('format')!r}, and this version reads {FORMAT}; make the index again"
        )
    try:
        return manifest_of(table)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{path} is not understood ({error}); {HINT}") from error


def manifest_of(table: dict[str, Any]) -> Manifest:
    """Raises KeyError, TypeError or ValueError for a table that is none."""
    known = {name: table[name] for name in ("kind", "dtype", "space", "next_row", "changes", "recall")}
    model, deleted = table["model"], table["deleted"]
    manifest = Manifest(
        **known,
        model=ModelNote(_text(model["name"]), _text(model["fingerprint"])),
        segments=tuple(_listed(entry) for entry in table["segments"]),
        deleted=None if deleted is None else _listed(deleted),
    )
    if manifest.kind not in KINDS or manifest.dtype not in DTYPES:
        raise ValueError(f"kind {manifest.kind!r}, dtype {manifest.dtype!r}")
    if not isinstance(manifest.recall, dict) or not 0 <= int(manifest.recall.get("effort", 0)) < 2**20:
        raise ValueError("recall is no table with an effort")
    for name in ("next_row", "changes"):
        if type(table[name]) is not int or not 0 <= table[name] < 2**62:
            raise ValueError(f"{name} is no number of rows")
    return manifest


def _listed(entry: dict[str, str]) -> Listed:
    name = _text(entry["name"])
    if Path(name).name != name or name.startswith("."):
        raise ValueError(f"{name!r} is no name of a file of the index")
    return Listed(name, _text(entry["sha256"]))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value
