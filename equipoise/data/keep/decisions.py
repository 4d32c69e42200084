"""What a person decided on captions: `decisions.json` beside a keep file, as the page for curators saves it.

    {"kind": "equipoise decisions", "version": 1, "keep": DIGEST, "threshold": 0.4 or null, "decisions": [
        {"key": "a", "caption": 0, "row": 0, "decision": "drop"},
        {"key": "b", "caption": 1, "row": 6, "decision": "swap", "with": {"key": "c", "caption": 0, "row": 10}}]}

`keep` is the digest of the keep file that was decided on. `row`, the caption's place in it, may be left out where no
other record has the same key. A swap gives the record the caption named by `with`, one of the same data; its words may
stand beside (`text`), and must be the same then. A caption that a person kept or swapped counts in full.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.data.keep.file import KeepTable
from equipoise.data.keep.rules import DROP, KEEP
from equipoise.data.side_data import fingerprints
from equipoise.types import UserError

DECISIONS, KIND, DECISIONS_VERSION = "decisions.json", "equipoise decisions", 1
SWAP = "swap"
LARGEST = 1 << 28  # bytes of a file: a million decisions with their captions
FIELDS = {"kind", "version", "keep", "threshold", "decisions"}
ENTRY, OTHER = {"key", "caption", "row", "decision", "with"}, {"key", "caption", "row", "text"}
ADVICE = "save it again from the page in this folder, or remove it"


@dataclass(frozen=True)
class Decisions:
    """Rows of the keep file that a person decided on; nothing where nobody did."""

    threshold: float | None = None
    keep: Mapping[int, bool] = field(default_factory=dict)  # by row; a caption that is swapped is kept
    swaps: Mapping[int, int] = field(default_factory=dict)  # by row: the row of the caption that takes its place

    def counts(self) -> dict[str, int]:
        kept = sum(self.keep.values()) - len(self.swaps)
        return {"kept": kept, "dropped": len(self.keep) - sum(self.keep.values()), "swapped": len(self.swaps)}


def digest_of_table(table: KeepTable) -> str:
    """Of what was judged and how; another decision in the table leaves it as it is."""
    total = hashlib.sha256()
    for key in table.keys:
        total.update(key.encode("utf-8", "surrogatepass") + b"\0")
    for column, kind in ((table.captions, np.int32), (table.fingerprints, np.int64), (table.right, np.float32)):
        total.update(np.ascontiguousarray(column, dtype=kind).tobytes())
    return total.hexdigest()


def read_decisions(folder: Path, table: KeepTable) -> Decisions:
    """The decisions in `folder` on its keep file; raises UserError where they are not of it or make no sense."""
    path = folder / DECISIONS
    if not path.exists():
        return Decisions()
    content = content_of(path)
    if content["keep"] != digest_of_table(table):
        raise UserError(f"{path} was made for another keep file than the one beside it; {ADVICE}")
    return _Reader(path, table).decisions(content)


def content_of(path: Path) -> dict[str, Any]:
    """The file's content, of the right kind and version."""
    try:
        if path.stat().st_size > LARGEST:
            raise UserError(f"{path} has more than {LARGEST:,} bytes, so it holds no decisions; {ADVICE}")
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, UserError):
            raise
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise UserError(f"{path} cannot be read ({reason}); {ADVICE}") from error
    if not isinstance(content, dict) or content.get("kind") != KIND:
        raise UserError(f'{path} holds no decisions: its "kind" is not "{KIND}"; {ADVICE}')
    if content.get("version") != DECISIONS_VERSION or isinstance(content["version"], bool):
        raise UserError(
            f"{path} is of version {content.get('version')!r}, and this Equipoise reads version {DECISIONS_VERSION}; "
            f"{ADVICE}"
        )
    if missing := FIELDS - set(content):
        raise UserError(f'{path} has no "{min(missing)}"; {ADVICE}')
    if unknown := set(content) - FIELDS:
        raise UserError(f'{path} has "{min(unknown)}", which means nothing there; {ADVICE}')
    return content


class _Reader:
    """Reads the entries of one file, and says of which of them something is wrong."""

    def __init__(self, path: Path, table: KeepTable):
        self.path, self.table = path, table
        self.starts: dict[str, list[int]] = {}  # rows of the first captions, by key
        for row in np.flatnonzero(table.captions == 0).tolist():
            self.starts.setdefault(table.keys[row], []).append(row)

    def decisions(self, content: Mapping[str, Any]) -> Decisions:
        threshold, entries = content["threshold"], content["decisions"]
        if threshold is not None and not _is_probability(threshold):
            raise self._error(f'"threshold" is {threshold!r:.40}, and must be null or a probability from 0 to 1')
        if not isinstance(entries, list):
            raise self._error('"decisions" must be a list')
        keep: dict[int, bool] = {}
        swaps: dict[int, int] = {}
        for number, entry in enumerate(entries):
            place = f"decision {number + 1}"
            row, decision = self._row(entry, ENTRY, place), entry.get("decision")
            if row in keep:
                raise self._error(f'{place} is another one on caption {entry["caption"]} of "{entry["key"]}"')
            if decision not in (KEEP, DROP, SWAP):
                raise self._error(f"{place} is {decision!r}, and must be {KEEP}, {DROP} or {SWAP}")
            if (decision == SWAP) != ("with" in entry):
                raise self._error(f'{place} is {decision}, and "with" belongs to {SWAP} and to nothing else')
            keep[row] = decision != DROP
            if decision == SWAP:
                swaps[row] = self._other(entry["with"], f'"with" of {place}')
        return Decisions(None if threshold is None else float(threshold), keep, swaps)

    def _row(self, entry: Any, fields: set[str], place: str) -> int:
        """The row of the keep file that an entry names."""
        if not isinstance(entry, dict) or not {"key", "caption"} <= set(entry) <= fields:
            raise self._error(f'{place} must have "key" and "caption", and nothing but {", ".join(sorted(fields))}')
        key, caption = entry["key"], entry["caption"]
        if not isinstance(key, str) or key not in self.starts:
            raise self._error(f"{place} is on the record {key!r}, which the keep file does not have")
        if not _is_count(caption):
            raise self._error(f"{place} is on caption {caption!r}; captions are numbered from 0")
        rows = [start + caption for start in self.starts[key] if self._is_caption(start + caption, key, caption)]
        if not rows:
            raise self._error(f'{place} is on caption {caption} of "{key}", which has none of that number')
        if "row" in entry:
            if entry["row"] not in rows or not _is_count(entry["row"]):
                raise self._error(f'{place} has the row {entry["row"]!r}, where caption {caption} of "{key}" is not')
            return int(entry["row"])
        if len(rows) > 1:
            raise self._error(f'{place} needs a "row", for several records are called "{key}"')
        return rows[0]

    def _other(self, entry: Any, place: str) -> int:
        """The row of the caption that takes the place of one that is swapped."""
        row = self._row(entry, OTHER, place)
        text = entry.get("text")
        if text is None:
            return row
        if not isinstance(text, str) or int(fingerprints([text])[0]) != int(self.table.fingerprints[row]):
            raise self._error(f'{place}: caption {entry["caption"]} of "{entry["key"]}" has other words than "text"')
        return row

    def _is_caption(self, row: int, key: str, caption: int) -> bool:
        return row < len(self.table) and self.table.keys[row] == key and int(self.table.captions[row]) == caption

    def _error(self, what: str) -> UserError:
        return UserError(f"{self.path}: {what}; {ADVICE}")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_probability(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
