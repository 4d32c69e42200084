"""Shards of a classification set as CLIP_benchmark keeps them: `KEY.jpg`, `KEY.cls`, `classnames.txt`, `templates.txt`.

The two lists lie beside the shards. A `.cls` holds the number of the class, from 0. Captions are the templates filled
with the class's name, so such a set can be trained on as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

from equipoise.data.files.captions import BadText, read_class, read_side
from equipoise.data.files.classes import checked_names, checked_templates, filled, read_lines
from equipoise.data.files.file_source import FileSettings
from equipoise.data.files.image_source import LabelledPictures
from equipoise.data.files.paths import find_files
from equipoise.data.files.records import Records, pair_with
from equipoise.data.files.shard_index import Shard
from equipoise.data.files.webdataset import ShardRecords, open_shards
from equipoise.data.source import Pair
from equipoise.settings.trust import output_folder

NAMES, TEMPLATES = "classnames.txt", "templates.txt"


@dataclass(frozen=True)
class ClassShards(FileSettings):
    names_classes: ClassVar[bool] = True
    class_names: str = ""  # a file; classnames.txt beside the first shard where it is not given
    templates: str = ""  # a file; templates.txt beside the first shard where it is not given
    cache: str = output_folder()  # a folder for copies of what URLs name, and for indices of the shards

    def records(self, patterns: tuple[str, ...]) -> ClassRecords:
        names, templates = self.words(patterns)
        paths, check = find_files(patterns, self.root, self.cache), partial(check_class, classes=len(names))
        shards = open_shards(paths, check, self.cache, f"classes {len(names)}")
        return ClassRecords(shards, names, templates)

    def source(self, records: Records, patterns: tuple[str, ...]) -> LabelledPictures:
        return LabelledPictures(records, self.max_bad, *self.words(patterns))

    def words(self, patterns: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of the classes, and templates."""
        beside = find_files(patterns, self.root, self.cache)[0].parent
        names = Path(self.root) / self.class_names if self.class_names else beside / NAMES
        templates = Path(self.root) / self.templates if self.templates else beside / TEMPLATES
        return (
            checked_names(read_lines(names, "class names"), str(names)),
            checked_templates(read_lines(templates, "templates"), str(templates)),
        )


class ClassRecords(ShardRecords):
    """Records whose text is their class."""

    def __init__(self, shards: list[Shard], names: tuple[str, ...], templates: tuple[str, ...]):
        super().__init__(shards)
        self.names, self.templates = names, templates

    def pair_from(self, key: str, files: Mapping[str, bytes]) -> Pair:
        name = self.names[class_of(files, len(self.names))]
        side = read_side(files.get("json", b"{}"))
        return pair_with(key, filled(self.templates, name), {**side, "label": name})


def check_class(files: Mapping[str, bytes], classes: int) -> None:
    """Raises BadText for a record whose class or side data cannot be read."""
    class_of(files, classes)
    read_side(files.get("json", b"{}"))


def class_of(files: Mapping[str, bytes], classes: int) -> int:
    """The number of a record's class. Raises BadText."""
    if "cls" not in files:
        raise BadText("there is no .cls beside the image")
    return read_class(files["cls"], classes)
