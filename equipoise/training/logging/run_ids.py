"""The id under which a logger knows a run, in a file, so that a resumed run goes on there."""

from __future__ import annotations

import secrets
from pathlib import Path

from equipoise.io.atomic import write_text
from equipoise.types import UserError

RUN_ID = "run-id"  # file within a logger's folder


def run_id(folder: Path) -> str | None:
    """The id under which a logger knows the run, stored in its folder; None before there is one."""
    path = folder / RUN_ID
    if not path.is_file():
        return None
    found = path.read_text(encoding="utf-8", errors="replace").strip()
    if not (found.isascii() and found.isalnum()):
        raise UserError(f"{path} holds no id of a run; bring it back as it was, or remove it to log as a new run")
    return found


def new_id() -> str:
    return secrets.token_hex(8)  # not of the generators that a run draws from


def keep_id(folder: Path, found: str) -> None:
    write_text(folder / RUN_ID, found + "\n")
