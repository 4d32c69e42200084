"""JSON files that people hand us: read, and checked for the lists and fields that are needed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from equipoise.types import UserError


def read_json(path: Path, wanted: str) -> dict[str, Any]:
    """The table of a file; `wanted` says what it should be, as the end of a sentence."""
    try:
        found = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}; give {wanted}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text (byte {error.start}); give {wanted}") from error
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}: {error.msg[0].lower()}{error.msg[1:]}"
        raise UserError(f"{path} is not JSON ({place}); give {wanted}") from error
    except (ValueError, RecursionError) as error:  # a number of too many digits, lists within lists without end
        raise UserError(f"{path} is JSON that cannot be read; give {wanted}") from error
    if not isinstance(found, dict):
        raise UserError(f"{path} holds no table of names and values; give {wanted}")
    return found


def entries(table: dict[str, Any], name: str, fields: Sequence[str], path: Path, wanted: str) -> list[dict[str, Any]]:
    """The list under a name, each of its entries a table that has all the fields."""
    found = table.get(name)
    if not isinstance(found, list):
        raise UserError(f'{path} has no list "{name}"; give {wanted}')
    for number, one in enumerate(found):
        lacking = fields if not isinstance(one, dict) else [field for field in fields if field not in one]
        if lacking:
            raise UserError(f'{path}: entry {number} of "{name}" has no "{lacking[0]}"; give {wanted}')
    return found
