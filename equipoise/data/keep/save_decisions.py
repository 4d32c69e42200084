"""Writing `decisions.json` beside a keep file, one decision after the other; `decisions.py` reads it.

What is there already stays: the page for curators may have saved decisions, and a threshold, to the same file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from equipoise.data.keep.decisions import DECISIONS, DECISIONS_VERSION, KIND, SWAP, Decisions, digest_of_table
from equipoise.data.keep.file import KeepTable
from equipoise.data.keep.rules import DROP, KEEP
from equipoise.io.atomic import write_text
from equipoise.types import UserError


def decided(decisions: Decisions, row: int, decision: str | None, other: int | None = None) -> Decisions:
    """The decisions with one more, or, where `decision` is None, without any on that row; `other` is the row of the
    caption that takes its place in a swap."""
    if decision not in (KEEP, DROP, SWAP, None):
        raise UserError(f"a decision is {decision!r}, and must be {KEEP}, {DROP} or {SWAP}")
    if (decision == SWAP) != (other is not None):
        raise UserError(f"the row of another caption belongs to {SWAP} and to nothing else")
    keep = {one: value for one, value in decisions.keep.items() if one != row}
    swaps = {one: value for one, value in decisions.swaps.items() if one != row}
    if decision is not None:
        keep[row] = decision != DROP
    if other is not None:
        swaps[row] = other
    return Decisions(decisions.threshold, keep, swaps)


def save_decisions(folder: Path, table: KeepTable, decisions: Decisions, digest: str = "") -> None:
    """Write them all, or leave the file as it was; `digest` is that of the table, where it is known already."""
    entries = [_entry(table, decisions, row) for row in sorted(decisions.keep)]
    content = {
        "kind": KIND,
        "version": DECISIONS_VERSION,
        "keep": digest or digest_of_table(table),
        "threshold": decisions.threshold,
        "decisions": entries,
    }
    write_text(folder / DECISIONS, json.dumps(content, indent=1) + "\n")


def decision_on(decisions: Decisions, row: int) -> str | None:
    if row not in decisions.keep:
        return None
    return SWAP if row in decisions.swaps else KEEP if decisions.keep[row] else DROP


def _entry(table: KeepTable, decisions: Decisions, row: int) -> dict[str, Any]:
    entry = {**_named(table, row), "decision": decision_on(decisions, row)}
    return {**entry, "with": _named(table, decisions.swaps[row])} if row in decisions.swaps else entry


def _named(table: KeepTable, row: int) -> dict[str, Any]:
    return {"key": table.keys[row], "caption": int(table.captions[row]), "row": row}
