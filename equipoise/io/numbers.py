"""The numbers of a command, for programs: drivers hand over what they print for people, and `--json` writes it once.

    with taking_numbers() as numbers:      # the command line
        ...
            hand_over({"acc1": 0.91})      # a driver, any number of times
    print(as_json(numbers))

Without a taker, as in a Python session, what is handed over is dropped.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

_TAKEN: ContextVar[dict[str, Any] | None] = ContextVar("numbers", default=None)


@contextmanager
def taking_numbers() -> Iterator[dict[str, Any]]:
    """Yields the table that `hand_over` fills within."""
    numbers: dict[str, Any] = {}
    token = _TAKEN.set(numbers)
    try:
        yield numbers
    finally:
        _TAKEN.reset(token)


def hand_over(numbers: Mapping[str, Any]) -> None:
    """Add numbers to what the command writes; a name that is there already gets the new value."""
    if (taken := _TAKEN.get()) is not None:
        taken.update(numbers)


def as_json(numbers: Mapping[str, Any]) -> str:
    """One JSON object; what is no number (NaN, infinity), which JSON does not have, is null."""
    return json.dumps(_plain(numbers), indent=2, ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):  # numpy's numbers and arrays
        return _plain(value.tolist())
    return value
