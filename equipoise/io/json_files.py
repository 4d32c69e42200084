"""Reading JSON files that anybody may have written: whatever is wrong with one is said in a sentence."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

from equipoise.types import UserError

MOST_BYTES = 1 << 28  # vocabularies of many languages take a tenth of it


def read_json(path: Path, hint: str = "") -> Any:
    """The content of a JSON file; raises UserError with the file's name and, at its end, the hint."""
    ending = f"; {hint}" if hint else ""
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            raise UserError(f"cannot read {path}: it is no file{ending}")
        if status.st_size > MOST_BYTES:
            raise UserError(f"cannot read {path}: it is larger than {MOST_BYTES:,} bytes{ending}")
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror or error}{ending}") from error
    return _parsed(content, path, ending)


def read_json_table(path: Path, hint: str = "") -> dict[str, Any]:
    """The table (object) that a JSON file holds; raises UserError for anything else."""
    return _table(read_json(path, hint), path, f"; {hint}" if hint else "")


def json_table(content: bytes, place: str, hint: str = "") -> dict[str, Any]:
    """The table that the bytes of a JSON file hold, which was read from `place`."""
    ending = f"; {hint}" if hint else ""
    return _table(_parsed(content, place, ending), place, ending)


def _parsed(content: bytes, place: Path | str, ending: str) -> Any:
    try:
        return json.loads(content.decode("utf-8"))
    except RecursionError:
        raise UserError(f"cannot read {place}: its lists and tables lie too deep in each other{ending}") from None
    except ValueError as error:  # no JSON, no UTF-8, or a number of too many digits
        raise UserError(f"cannot read {place}: {error}{ending}") from error


def _table(content: Any, place: Path | str, ending: str) -> dict[str, Any]:
    if not isinstance(content, dict):
        raise UserError(f"cannot read {place}: it must hold a table {{...}}, not {kind_of(content)}{ending}")
    return content


def kind_of(value: Any) -> str:
    """What a value of JSON is, in words."""
    kinds = {bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list", dict: "a table"}
    return kinds.get(type(value), "null")
