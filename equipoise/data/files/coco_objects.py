"""Which objects are in which picture, from an annotation file in MSCOCO's form (instances_*.json).

images        [{"id", "file_name"}, ...]
annotations   [{"image_id", "category_id"}, ...]
categories    [{"id", "name"}, ...]
"""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

from equipoise.data.files.coco_json import entries, read_json
from equipoise.types import UserError

WANTED = "a file of objects in MSCOCO's form, such as instances_val2017.json (docs/codes.md)"


def read_objects(path: Path) -> dict[str, tuple[str, ...]]:
    """The kinds of objects present in each picture, each once, by the picture's file name without its ending."""
    table = read_json(path, WANTED)
    kinds = entries(table, "categories", ("id", "name"), path, WANTED)
    pictures = entries(table, "images", ("id", "file_name"), path, WANTED)
    marks = entries(table, "annotations", ("image_id", "category_id"), path, WANTED)
    names = {str(kind["id"]): str(kind["name"]) for kind in kinds}
    keys = {str(picture["id"]): PurePosixPath(str(picture["file_name"])).stem for picture in pictures}
    found: dict[str, dict[str, None]] = {key: {} for key in keys.values()}
    for number, one in enumerate(marks):
        key = _known(keys, one, "image_id", "images", number, path)
        found[key][_known(names, one, "category_id", "categories", number, path)] = None
    return {key: tuple(objects) for key, objects in found.items()}


def _known(names: dict[str, str], one: dict[str, Any], field: str, listed: str, number: int, path: Path) -> str:
    name = names.get(str(one[field]))
    if name is None:
        raise UserError(
            f'{path}: entry {number} of "annotations" has the {field} {one[field]}, which "{listed}" does not list; '
            f"give {WANTED}"
        )
    return name
