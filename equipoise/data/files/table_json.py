"""Tables written as JSON: one object a line, a list of objects, MSCOCO's captions, or Karpathy's splits.

    .jsonl, .ndjson    {"filepath": "a.jpg", "title": "a cat"}                         one object a line
    .json              [{"filepath": "a.jpg", "title": ["a cat", "a tabby"]}, ...]     a list of them
    .json              {"images": [{"id", "file_name"}, ...], "annotations": [{"image_id", "caption"}, ...]}

    .json              {"images": [{"filename", "split", "sentences"}, ...]}           (`karpathy.py`)

MSCOCO's form is read as a table with the columns `file_name` and `caption` and a row per caption. An image that no
annotation names is a row without a caption.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from equipoise.data.files.coco import Entry, entries
from equipoise.data.files.karpathy import COLUMNS, is_karpathy, karpathy_rows
from equipoise.io.json_files import read_json
from equipoise.types import UserError

LINES, WHOLE = (".jsonl", ".ndjson"), (".json",)
JSON = (*LINES, *WHOLE)
FILE_NAME, CAPTION = "file_name", "caption"  # the columns of MSCOCO's form
WANTED = (
    "a list of objects that each have a picture's path and its captions, or captions in MSCOCO's form, such as "
    "captions_val2017.json"
)
LONGEST_LINE = 1 << 22  # characters
LOOKED_AT = 100  # rows whose keys make up the columns

Rows = Iterator[tuple[int, Mapping[str, Any]]]  # with the line, or the number, of each


def json_rows(path: Path) -> tuple[tuple[str, ...], Rows]:
    """The names of the columns, as the first rows have them, and all rows."""
    if path.suffix.lower() in LINES:
        columns = _keys(row for _, row in _lines(path))
        return columns, _lines(path)
    content = read_json(path, f"give {WANTED}")
    if isinstance(content, dict) and is_karpathy(content):
        return COLUMNS, karpathy_rows(content, path)
    if isinstance(content, dict):
        return (FILE_NAME, CAPTION), _coco(content, path)
    if not isinstance(content, list) or not all(isinstance(row, dict) for row in content):
        raise UserError(f"{path} holds no objects with names and values; give {WANTED}")
    return _keys(iter(content)), iter(enumerate(content, 1))


def _keys(rows: Iterator[Mapping[str, Any]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(key for _, row in zip(range(LOOKED_AT), rows, strict=False) for key in row))


def _lines(path: Path) -> Rows:
    try:
        with path.open(encoding="utf-8-sig", errors="surrogateescape") as file:
            number = 0
            while text := file.readline(LONGEST_LINE + 1):
                number += 1
                if text.strip():
                    yield number, _object(path, number, text)
    except OSError as error:
        raise UserError(f"{path}: this table cannot be read ({error.strerror}); check it") from None


def _object(path: Path, line: int, text: str) -> Mapping[str, Any]:
    where = f"{path}, line {line}"
    if len(text) > LONGEST_LINE:
        raise UserError(f"{where}: it has more than {LONGEST_LINE:,} characters; write one object a line")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = f"{error.msg}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else str(error)[:80]
        raise UserError(f"{where}: this is not JSON ({reason}); write one object a line") from None
    if not isinstance(found, dict):
        raise UserError(f"{where}: this is no object with names and values; write one a line")
    return found


def _coco(table: dict[str, Any], path: Path) -> Rows:
    images = entries(table, "images", ("id", "file_name"), path, WANTED)
    annotations = entries(table, "annotations", ("image_id", "caption"), path, WANTED)
    captions: dict[str, list[tuple[int, Entry]]] = {str(image["id"]): [] for image in images}
    for number, annotation in enumerate(annotations):
        if (owner := str(annotation["image_id"])) not in captions:
            raise UserError(
                f'{path}: entry {number} of "annotations" has the image_id {owner}, which "images" does not list; '
                f"give {WANTED}"
            )
        captions[owner].append((number, annotation))
    return iter([
        (number, {FILE_NAME: image["file_name"], CAPTION: annotation.get("caption")})
        for image in images
        for number, annotation in captions[str(image["id"])] or [(0, {})]
    ])  # fmt: skip
