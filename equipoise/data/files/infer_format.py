"""What kind of data a path names, from what lies there, for commands that take files instead of a recipe.

a.csv .tsv .parquet .jsonl .json      a table; its columns are guessed (`guess_columns.py`)
a.tar, 'a-{00..99}.tar', a URL        shards, of classes where classnames.txt lies beside them
a folder                              what is in it: shards, metadata.csv (or .jsonl, .parquet) or Parquet files,
                                      pictures with or without .txt beside them, or a folder of pictures per class
a.jpg, 'photos/*.jpg'                 pictures
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from equipoise.data.braces import expand_braces
from equipoise.data.files.file_source import FileSettings
from equipoise.data.files.guess_columns import guess_columns, told
from equipoise.data.files.image_folder import is_picture
from equipoise.data.files.mixture import PARTS
from equipoise.data.files.paths import find_files
from equipoise.data.files.picture_folder import has_text, pictures_in
from equipoise.data.files.records import IMAGES
from equipoise.data.files.table_columns import PARQUET, SEPARATORS, TABLES
from equipoise.data.files.webdataset_classes import NAMES
from equipoise.data.urls import URL
from equipoise.types import UserError

METADATA = tuple(f"metadata{ending}" for ending in (".csv", ".tsv", ".jsonl", ".parquet"))
MODEL = ("model.safetensors", "config.toml")
FOREIGN = (".zip", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar", ".xlsx", ".xls", ".arrow", ".lmdb", ".h5", ".hdf5")
ADVICE = "give shards (.tar), a table (.csv, .tsv, .parquet, .jsonl, .json) or a folder of pictures"


@dataclass(frozen=True)
class Inferred:
    """Files as a recipe's table [data] names them."""

    files: str  # the pattern of a split
    table: dict[str, Any]  # the rest of the table: `name`, and what had to be found out
    told: str = ""  # what was found out, for a person

    @property
    def settings(self) -> FileSettings:
        """The settings that read all of it as the split `test`."""
        known = {key: value for key, value in self.table.items() if key != "name"}
        return PARTS[self.table["name"]](test=self.files, **known)


def looks_like_data(name: str) -> bool:
    """Whether a word names files of data, and not a recipe."""
    path = Path(name)
    ending = path.suffix.lower()
    if ending in FOREIGN and not URL.match(name):
        raise UserError(f"{name}: files that end in {ending} are not read; {ADVICE}")
    known = (".tar", *TABLES, *(f".{kind}" for kind in IMAGES))
    return ending in known or bool(URL.match(name)) or "*" in name or path.is_dir()


def settings_for(name: str) -> FileSettings:
    """The settings that read the files of a path or pattern as the split `test`, whole."""
    return infer(name).settings


def infer(name: str, given: Mapping[str, Any] | None = None) -> Inferred:
    """The table [data] that reads the files of a path or pattern, less the settings that are `given`."""
    if not name:  # a variable of a shell that is not set; the path would be where the command runs
        raise UserError(f"DATA is an empty word; {ADVICE}")
    given = given or {}
    path = Path(next(iter(expand_braces(name))))
    inside = _inside(path) or name
    kind = given.get("name") or _kind(path, inside)
    if kind != "table" or URL.match(inside):
        return Inferred(inside, {"name": kind})
    found = guess_columns(find_files(inside, given.get("root", ""))[0], given)
    return Inferred(inside, {"name": kind, **found}, told({**found, **given}))


def _inside(folder: Path) -> str:
    """The pattern of the tables that a folder holds; empty where it holds none."""
    if table := next((name for name in METADATA if (folder / name).is_file()), ""):
        return str(folder / table)
    for ending in PARQUET:
        if any(folder.glob(f"*{ending}")):
            return str(folder / f"*{ending}")
    return ""


def _kind(path: Path, inside: str) -> str:
    """The name of the source that reads it."""
    ending = Path(inside).suffix.lower()
    if ending in (*SEPARATORS, *TABLES):
        return "table"
    if ending.removeprefix(".") in IMAGES:
        return "pictures"
    folder = path if path.is_dir() else path.parent
    if path.is_dir() and not any(path.glob("*.tar")):
        return _kind_of_folder(path)
    return "class_shards" if (folder / NAMES).is_file() else "shards"


def _kind_of_folder(folder: Path) -> str:
    if all((folder / name).is_file() for name in MODEL):
        raise UserError(f"{folder}: this is a model folder, and not data; {ADVICE}")
    if any(is_picture(inner.name) for inner in folder.iterdir()):
        return "pictures"
    first = next(pictures_in(folder), None)
    if first is None:
        raise UserError(f"{folder}: there are neither shards (.tar) nor folders of pictures in it; check the path")
    return "pictures" if has_text(first) else "folders"
