"""What a run was trained on: `kept.json` in its folder, so that it is not resumed on other captions.

A keep file and the decisions beside it may be edited while a run is stopped. Runs of before have no such note, and go
on as they are.
"""

from __future__ import annotations

import json
from pathlib import Path

from equipoise.data.source import Source
from equipoise.io.atomic import write_text
from equipoise.types import UserError

RECORD = "kept.json"


def record_captions(folder: Path, source: Source, keep_folder: str, resumed: bool) -> None:
    """Note how captions were chosen; raises UserError where a run that goes on began with others."""
    now, path = getattr(source, "selection", None), folder / RECORD
    if not now:
        return
    if not resumed:
        write_text(path, json.dumps(now, indent=2) + "\n")
    elif path.is_file() and (before := _read(path)).get("digest") != now["digest"]:
        raise UserError(
            f"the run in {folder} began with other captions than {keep_folder} keeps now, so it cannot be resumed "
            f"({_told(before)} then, {_told(now)} now); put the keep file and decisions.json back, or choose another "
            "folder with --out"
        )


def _read(path: Path) -> dict[str, object]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UserError(f"{path} cannot be read ({error}); remove it to go on without knowing") from error
    return found if isinstance(found, dict) else {}


def _told(selection: dict[str, object]) -> str:
    hand = selection.get("by_hand")
    decided = ", ".join(f"{count} {what}" for what, count in hand.items()) if isinstance(hand, dict) else "nothing"
    return f"{selection.get('captions')} captions, by hand {decided}"
