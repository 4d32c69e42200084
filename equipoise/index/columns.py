"""Fields of records as columns, so that a filter looks at numbers and not at a million JSON texts.

    fields.json           {"year": {"number": 0}, "kind": {"text": 1}, ...}: the column of each field and kind
    column-00000.number   float64 [N], NaN where a record has none
    column-00001.text     int32 [N], the place of the text in column-00001.json; -1 where a record has none
    column-00002.bool     int8 [N], 0 or 1; -1 where a record has none

A field may hold values of several kinds, each then in a column of its own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.index.index import Record
from equipoise.index.points import AGAIN, mapped
from equipoise.io.json_files import read_json, read_json_table
from equipoise.types import UserError

FIELDS = "fields.json"
MOST_FIELDS = 256
KINDS: dict[str, np.dtype] = {"number": np.dtype("<f8"), "text": np.dtype("<i4"), "bool": np.dtype("i1")}
MISSING = {"number": math.nan, "text": -1, "bool": -1}
OWN = ("key", "caption", "of")


def fields_of(record: Record) -> dict[str, float | str | bool]:
    """What filters may ask of a record: numbers, texts and truths of its side data; lists of texts joined by commas."""
    fields = {name: plain for name, value in record.side.items() if (plain := _plain(value)) is not None}
    return fields | {"key": record.key, "caption": "\n".join(record.captions), "of": record.of}


def _plain(value: Any) -> float | str | bool | None:
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        return number if math.isfinite(number := _float(value)) else None
    if isinstance(value, list | tuple) and value and all(isinstance(item, str) for item in value):
        return ", ".join(value)
    return None


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


class ColumnWriter:
    """Gathers the fields of records, and writes them at the end."""

    def __init__(self) -> None:
        self.count = 0
        self.columns: dict[tuple[str, str], dict[int, Any]] = {}  # by field and kind: values by record

    def add(self, fields: Mapping[str, float | str | bool]) -> None:
        for name, value in fields.items():
            kind = "bool" if isinstance(value, bool) else "text" if isinstance(value, str) else "number"
            if (name, kind) not in self.columns and len(self.columns) >= MOST_FIELDS:
                continue  # data whose side data has no fixed fields; they are still shown with the record
            self.columns.setdefault((name, kind), {})[self.count] = value
        self.count += 1

    def write(self, folder: Path) -> None:
        table: dict[str, dict[str, int]] = {}
        for number, ((name, kind), values) in enumerate(sorted(self.columns.items(), key=lambda item: item[0])):
            table.setdefault(name, {})[kind] = number
            column = np.full(self.count, MISSING[kind], KINDS[kind])
            places = np.fromiter(values, np.int64, len(values))
            column[places] = _codes(folder, number, values) if kind == "text" else list(values.values())
            column.tofile(folder / f"column-{number:05d}.{kind}")
        (folder / FIELDS).write_text(json.dumps(table, ensure_ascii=False), encoding="utf-8")


def _codes(folder: Path, number: int, values: Mapping[int, str]) -> list[int]:
    """Write the different texts of a column; the place of each record's."""
    places: dict[str, int] = {}
    codes = [places.setdefault(value, len(places)) for value in values.values()]
    (folder / f"column-{number:05d}.json").write_text(json.dumps(list(places), ensure_ascii=False), encoding="utf-8")
    return codes


class Columns:
    """The columns of a segment of `count` records."""

    def __init__(self, folder: Path, count: int):
        self.folder, self.count = folder, count
        self.table = read_json_table(folder / FIELDS, AGAIN)
        for name, kinds in self.table.items():
            if not isinstance(kinds, dict) or not all(k in KINDS and type(n) is int for k, n in kinds.items()):
                raise UserError(f"{folder / FIELDS} does not say what {name} is; {AGAIN}")

    @property
    def fields(self) -> dict[str, tuple[str, ...]]:
        return {name: tuple(kinds) for name, kinds in self.table.items()}

    def column(self, name: str, kind: str) -> np.ndarray | None:
        """Values, or codes of texts [N]; None where no record has such."""
        number = self.table.get(name, {}).get(kind)
        return None if number is None else mapped(self._path(number, kind), KINDS[kind], (self.count,))

    def texts(self, name: str) -> list[str]:
        """The different texts of a field, in the order of their codes."""
        path = self._path(self.table[name]["text"], "json")
        texts = read_json(path, AGAIN)
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            raise UserError(f"{path} must hold a list of texts; {AGAIN}")
        return texts

    def where_text(self, name: str, holds: Callable[[str], bool]) -> np.ndarray:
        """Which records [N] have a text in this field of which that holds; each different text is asked once."""
        codes = self.column(name, "text")
        if codes is None:
            return np.zeros(self.count, bool)
        answers = np.array([*map(holds, self.texts(name)), False], bool)  # -1 is the last: a record without it
        if self.count and not -1 <= int(codes.min()) <= int(codes.max()) < len(answers) - 1:
            raise UserError(f"{self.folder}: the texts of {name} are not those of its column; {AGAIN}")
        return answers[codes]

    def files(self) -> Iterator[str]:
        """The names of its files."""
        yield FIELDS
        for kinds in self.table.values():
            for kind, number in kinds.items():
                yield self._path(number, kind).name
                if kind == "text":
                    yield self._path(number, "json").name

    def _path(self, number: int, ending: str) -> Path:
        return self.folder / f"column-{number:05d}.{ending}"
