"""A record as JSON that every reader takes: no NaN, no infinity, no zero bytes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from equipoise.index.index import Record


def record_table(record: Record) -> dict[str, Any]:
    """What is known of a row, as a table."""
    table = {"key": record.key, "captions": list(record.captions), "picture": record.picture, "of": record.of}
    return {**table, "side": plain(dict(record.side))}


def record_of(table: Mapping[str, Any]) -> Record:
    """Raises KeyError or TypeError for a table that is no record."""
    return Record(table["key"], tuple(table["captions"]), table["picture"], table["side"], table["of"])


def dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def plain(value: Any) -> Any:
    """A value as JSON has it: what is no number is null, what is nothing of JSON its text."""
    if isinstance(value, Mapping):
        return {plain(str(name)): plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int):
        return value
    return str(value).replace("\0", "")
