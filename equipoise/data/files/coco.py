"""Annotation files in MSCOCO's form: JSON with lists of entries, and which objects are in which picture.

    images        [{"id", "file_name"}, ...]
    annotations   [{"image_id", "category_id"}, ...]
    categories    [{"id", "name"}, ...]

VQA's files are of the same form with other lists (`vqa_files.py`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from equipoise.types import UserError

WANTED = "a file of objects in MSCOCO's form, such as instances_val2017.json (docs/codes.md)"
Entry = dict[str, Any]


def read_json(path: Path, wanted: str) -> dict[str, Any]:
    """Reads a JSON table; `wanted` says what the file should be, as the end of an error message."""
    try:
        table = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}; give {wanted}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text (byte {error.start}); give {wanted}") from error
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}: {error.msg[0].lower()}{error.msg[1:]}"
        raise UserError(f"{path} is not JSON ({place}); give {wanted}") from error
    except (ValueError, RecursionError) as error:  # a number of too many digits, lists within lists without end
        raise UserError(f"{path} is JSON that cannot be read; give {wanted}") from error
    if not isinstance(table, dict):
        raise UserError(f"{path} holds no table of names and values; give {wanted}")
    return table


def entries(table: dict[str, Any], name: str, fields: Sequence[str], path: Path, wanted: str) -> list[Entry]:
    """The list under a name; raises UserError unless each of its entries is a table that has all the fields."""
    listed = table.get(name)
    if not isinstance(listed, list):
        raise UserError(f'{path} has no list "{name}"; give {wanted}')
    for number, entry in enumerate(listed):
        lacking = fields if not isinstance(entry, dict) else [field for field in fields if field not in entry]
        if lacking:
            raise UserError(f'{path}: entry {number} of "{name}" has no "{lacking[0]}"; give {wanted}')
    return listed


def read_objects(path: Path) -> dict[str, tuple[str, ...]]:
    """The categories present in each picture, each once, by the picture's file name without its ending."""
    table = read_json(path, WANTED)
    categories = entries(table, "categories", ("id", "name"), path, WANTED)
    images = entries(table, "images", ("id", "file_name"), path, WANTED)
    annotations = entries(table, "annotations", ("image_id", "category_id"), path, WANTED)
    names = {str(category["id"]): str(category["name"]) for category in categories}
    keys = {str(image["id"]): PurePosixPath(str(image["file_name"])).stem for image in images}
    objects: dict[str, dict[str, None]] = {key: {} for key in keys.values()}
    for number, annotation in enumerate(annotations):
        key = _known(keys, annotation, "image_id", "images", number, path)
        objects[key][_known(names, annotation, "category_id", "categories", number, path)] = None
    return {key: tuple(present) for key, present in objects.items()}


def _known(names: dict[str, str], annotation: Entry, field: str, listed: str, number: int, path: Path) -> str:
    name = names.get(str(annotation[field]))
    if name is None:
        raise UserError(
            f'{path}: entry {number} of "annotations" has the {field} {annotation[field]}, which "{listed}" does not '
            f"list; give {WANTED}"
        )
    return name
