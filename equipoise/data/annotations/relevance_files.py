"""Which captions are relevant to which pictures, by their ids, from files.

    pairs.csv                               image id, caption id and perhaps a grade, one pair a line, with a header:
                                            image_id,caption_id,grade; pairs with a grade of 0 are not relevant
    X_image_to_caption.json beside          ECCV Caption's and CxC's form: {"QUERY": [ITEM, ...]} for each direction, of
    X_caption_to_image.json                 queries that may not be the same (eccv_caption's package)

A CSV names pairs and so serves both directions.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from equipoise.data.annotations.caption_ids import plain_id
from equipoise.io.json_files import read_json_table
from equipoise.types import UserError

IMAGE, CAPTION = ("image_id", "image"), ("caption_id", "caption")
GRADE = ("grade", "relevance", "score")
FORWARD, BACKWARD = "image_to_caption.json", "caption_to_image.json"
WANTED = "a CSV with the columns image_id, caption_id and perhaps grade, or ECCV Caption's NAME_image_to_caption.json"


@dataclass(frozen=True)
class RelevantIds:
    """Captions relevant to pictures, and pictures relevant to captions."""

    by_image: Mapping[str, tuple[str, ...]]
    by_caption: Mapping[str, tuple[str, ...]]


def read_relevance(file: Path) -> RelevantIds:
    """Relevance of either form; raises UserError for anything else."""
    if file.suffix.lower() == ".csv":
        return _of_pairs(list(_csv_pairs(file)), file)
    if file.name.endswith((FORWARD, BACKWARD)):
        stem = file.name.removesuffix(FORWARD).removesuffix(BACKWARD)
        return RelevantIds(*(_lists(file.parent / f"{stem}{name}") for name in (FORWARD, BACKWARD)))
    raise UserError(f"{file}: this is no file of relevance; give {WANTED}")


def _lists(file: Path) -> dict[str, tuple[str, ...]]:
    found = {}
    for query, items in read_json_table(file, f"give {WANTED}").items():
        if not isinstance(items, list) or not all(isinstance(item, int | str) for item in items):
            raise UserError(f'{file}: what "{query}" has is no list of ids; give {WANTED}')
        found[plain_id(query)] = tuple(map(plain_id, items))
    return found


def _of_pairs(pairs: list[tuple[str, str]], file: Path) -> RelevantIds:
    if not pairs:
        raise UserError(f"{file}: there is no relevant pair in it; give {WANTED}")
    by_image: dict[str, list[str]] = {}
    by_caption: dict[str, list[str]] = {}
    for image, caption in pairs:
        by_image.setdefault(image, []).append(caption)
        by_caption.setdefault(caption, []).append(image)
    return RelevantIds(*({key: tuple(several) for key, several in one.items()} for one in (by_image, by_caption)))


def _csv_pairs(file: Path) -> Iterator[tuple[str, str]]:
    for line, row, columns in csv_rows(file, (IMAGE, CAPTION), GRADE, WANTED):
        grade = number_of(row[columns[2]], file, line, "grade") if columns[2] >= 0 else 1.0
        if grade > 0:
            yield plain_id(row[columns[0]]), plain_id(row[columns[1]])


def csv_rows(
    file: Path, needed: tuple[tuple[str, ...], ...], wished: tuple[str, ...], wanted: str
) -> Iterator[tuple[int, list[str], list[int]]]:
    """Lines of a CSV with their numbers, and the places of columns by any of their names; -1 for a wished one that is
    not there."""
    try:
        with file.open(encoding="utf-8-sig", newline="") as text:
            reader = csv.reader(text)
            header = [name.strip().lower() for name in next(reader, [])]
            places = [next((header.index(name) for name in names if name in header), -1) for names in (*needed, wished)]
            if missing := next((names for names, at in zip(needed, places, strict=False) if at < 0), None):
                raise UserError(f'{file}: there is no column "{missing[0]}" in its first line; give {wanted}')
            for row in reader:
                if not row:
                    continue
                if len(row) <= max(places):
                    raise UserError(f"{file}, line {reader.line_num}: it has {len(row)} fields, the header has more")
                yield reader.line_num, row, places
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}; give {wanted}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{file} is not a CSV in UTF-8 ({error}); give {wanted}") from None


def number_of(text: str, file: Path, line: int, what: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UserError(f'{file}, line {line}: the {what} "{text}" is no number; write one such as 1')
    return number
