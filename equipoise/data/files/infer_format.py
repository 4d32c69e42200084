"""What kind of data a path names, from what lies there, for commands that look at data without a recipe."""

from __future__ import annotations

from pathlib import Path

from equipoise.data.files.file_source import FileSettings
from equipoise.data.files.image_folder import Folders
from equipoise.data.files.paths import URL, expand_braces
from equipoise.data.files.table import Table
from equipoise.data.files.table_columns import PARQUET, SEPARATORS
from equipoise.data.files.webdataset import Shards
from equipoise.data.files.webdataset_classes import NAMES, ClassShards
from equipoise.types import UserError


def looks_like_data(name: str) -> bool:
    """Whether a word names files of data, and not a recipe."""
    path = Path(name)
    ending = path.suffix.lower()
    return ending in (".tar", *SEPARATORS, *PARQUET) or bool(URL.match(name)) or "*" in name or path.is_dir()


def settings_for(name: str) -> FileSettings:
    """The settings that read the files of a path or pattern as the split `test`, whole."""
    path = Path(next(iter(expand_braces(name))))
    if path.suffix.lower() in (*SEPARATORS, *PARQUET):
        return Table(test=name)
    folder = path if path.is_dir() else path.parent
    if path.is_dir() and not any(path.glob("*.tar")):
        if not any(inner.is_dir() for inner in path.iterdir()):
            raise UserError(f"{path}: there are neither shards (.tar) nor folders of classes in it; check the path")
        return Folders(test=name)
    return ClassShards(test=name) if (folder / NAMES).is_file() else Shards(test=name)
