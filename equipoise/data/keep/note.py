"""The form of what `keep.json` says, as far as anything is read from it; an absent field says nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from equipoise.types import UserError

FORMS = {"finding": (str, "text"), "rule": (dict, "a table"), "truth": (dict, "a table"), "judges": (list, "a list")}
AUROC = "auroc_of_shuffled"


def require_form(note: Mapping[str, Any], path: Path) -> None:
    """Raise UserError for a note of which some field is not what it must be: now, not when a report is written."""
    for name, (form, words) in FORMS.items():
        if name in note and not isinstance(note[name], form):
            raise _wrong(path, f'"{name}"', note[name], words)
    rule = note.get("rule", {})
    if rule.get("rule") == "threshold":
        _require_number(rule, "threshold", path, '"rule"')
    for name in note.get("truth", {}):
        _require_number(note["truth"], name, path, '"truth"')
    for number, judge in enumerate(note.get("judges", ()), start=1):
        place = f'judge {number} of "judges"'
        if not isinstance(judge, dict):
            raise _wrong(path, place, judge, "a table")
        _require_number(judge, AUROC, path, place)


def _require_number(table: Mapping[str, Any], name: str, path: Path, place: str) -> None:
    value = table.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _wrong(path, f'"{name}" of {place}', value, "a number")


def _wrong(path: Path, place: str, value: Any, words: str) -> UserError:
    return UserError(f"{path}: {place} is {value!r:.40}, and must be {words}; mend it, or clean the data again")
