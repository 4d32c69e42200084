"""What the page for curators shows: the most suspicious captions, a histogram of P(right), copies, false negatives."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.data.copies.find import Copy
from equipoise.data.keep.decisions import DECISIONS, Decisions, digest_of_table, read_decisions
from equipoise.data.keep.file import UNREADABLE, KeepTable, read_note
from equipoise.data.keep.rules import kept_captions
from equipoise.data.source import Pair, Source
from equipoise.data.thumbnail import thumbnail
from equipoise.reports.curate_page import write_page
from equipoise.types import UserError
from equipoise.workflows.clean.probability import Evidence
from equipoise.workflows.clean.proposals import FalseNegative, Place, Proposals

BARS = 50
COPIES, STRANGERS = 60, 24  # shown at most


StillWrong = Callable[[Sequence[float]], np.ndarray | None]  # captions that are wrong and above each threshold


def write_curators_page(
    folder: Path,
    table: KeepTable,
    source: Source,
    proposals: Proposals,
    copies: Sequence[Copy],
    evidence: Evidence,
    still_wrong: StillWrong | None = None,
) -> Path:
    """The page on the keep file in `folder`, by the evidence that its probabilities are from."""
    shown = _Shown(folder, table, source, evidence.owners, evidence.log_ratio, still_wrong)
    pairs = [shown.suspicious(row, proposals) for row in table.suspicious()[: proposals.show].tolist()]
    twins = [shown.copy(copy) for copy in copies[:COPIES]] if proposals.show else []
    alike = {(copy.first, copy.second) for copy in copies}
    strangers = [shown.false_negative(found) for found in _apart(proposals.false_negatives, alike, shown)]
    return write_page(folder, shown.facts(len(copies)), pairs, twins, strangers, shown.state(pairs, twins))


@dataclass(frozen=True)
class _Shown:
    folder: Path
    table: KeepTable
    source: Source
    owners: np.ndarray  # [M] the record of each row
    ratios: np.ndarray
    still_wrong: StillWrong | None

    def rows(self, record: int) -> range:
        """Rows of a record's captions; they come in the order of the data."""
        low, high = np.searchsorted(self.owners, [record, record + 1]).tolist()
        return range(low, high)

    def lacks_picture(self, record: int) -> bool:
        return any(self.table.kinds[row] == UNREADABLE for row in self.rows(record)) if self.table.kinds else False

    def text(self, place: Place) -> str:
        return words(self.source.pair(place[0]), place[1])

    def row(self, place: Place) -> int:
        return self.rows(place[0])[place[1]]

    def suspicious(self, row: int, proposals: Proposals) -> dict[str, Any]:
        record = int(self.owners[row])
        pair, number = self.source.pair(record), int(self.table.captions[row])
        count = len(self.rows(record))
        return {
            **self._caption(row),
            "picture": thumbnail(self.source, record),
            "text": words(pair, number),
            "others": [words(pair, other) for other in range(count) if other != number],
            "reason": self.table.reasons[row],
            "kind": self.table.kinds[row] if self.table.kinds else "",
            "proposal": self._proposal(row, proposals),
        }

    def _proposal(self, row: int, proposals: Proposals) -> dict[str, Any] | None:
        """The caption that fits better; none where the best is no better, or is among its own already."""
        record = int(self.owners[row])
        best = proposals.best.get(record)
        own = {int(self.table.fingerprints[other]) for other in self.rows(record)}
        if best is None or best.log_ratio <= self.ratios[row]:
            return None
        other = self.row(best.place)
        if int(self.table.fingerprints[other]) in own:
            return None
        better = best.log_ratio - float(self.ratios[row])
        saved = self._swapped(other, best.place)
        return {**self._caption(other), "text": self.text(best.place), "better": better, "saved": saved}

    def copy(self, copy: Copy) -> dict[str, Any]:
        kind = "exactly the same" if copy.exact else "nearly the same"
        sides = [self._record(copy.first), self._record(copy.second)]
        return {"kind": kind, "similarity": copy.similarity, "sides": sides}

    def false_negative(self, found: FalseNegative) -> dict[str, Any]:
        sides = [self._record(found.place[0]), self._record(found.record)]
        return {"text": self.text(found.place), "log_ratio": found.log_ratio, "sides": sides}

    def _record(self, record: int) -> dict[str, Any]:
        rows = self.rows(record)
        pair = self.source.pair(record)
        return {
            "key": pair.key,
            "picture": thumbnail(self.source, record),
            "captions": [{**self._caption(row), "text": words(pair, place)} for place, row in enumerate(rows)],
        }

    def _caption(self, row: int) -> dict[str, Any]:
        right = float(self.table.right[row])
        return {
            "row": row,
            "key": self.table.keys[row],
            "caption": int(self.table.captions[row]),
            "right": None if np.isnan(right) else right,
            "keep": bool(self.table.keep[row]),
        }

    def facts(self, copies: int) -> dict[str, Any]:
        note = read_note(self.folder)
        return {"finding": note.get("finding", ""), "rule": note["rule"], "folder": str(self.folder), "copies": copies}

    def state(self, pairs: Sequence[dict[str, Any]], twins: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """What the page's script works with."""
        rule = read_note(self.folder)["rule"]
        threshold = float(rule["threshold"])
        start = self._start()
        chosen = start["threshold"] if start else None
        grid = sorted({*(step / 100 for step in range(101)), threshold, threshold if chosen is None else chosen})
        right = self.table.right.astype(np.float32)
        known = ~np.isnan(right)
        kept = [kept_captions(right, "threshold", step, 0.0) for step in grid]
        wrong = self.still_wrong(grid) if self.still_wrong else None
        return {
            "digest": digest_of_table(self.table),
            "rule": rule["rule"],
            "threshold": threshold,
            "captions": len(right),
            "known": int(known.sum()),
            "grid": grid,
            "kept": [int(some.sum()) for some in kept],
            "wrong": None if wrong is None else wrong.tolist(),
            "bars": np.histogram(right[known], BARS, (0, 1))[0].tolist(),
            "start": start,
            "pairs": [_kept_of(pair) for pair in pairs],
            "copies": [[[_kept_of(one) for one in side["captions"]] for side in twin["sides"]] for twin in twins],
        }

    def _start(self) -> dict[str, Any] | None:
        """What was decided before, where the folder holds decisions on this keep file."""
        try:
            before = read_decisions(self.folder, self.table)
        except UserError as error:
            print(f"The page starts without {DECISIONS}: {error}")
            return None
        return None if before == Decisions() else self._listed(before)

    def _listed(self, before: Decisions) -> dict[str, Any]:
        entries = []
        for row, keep in before.keep.items():
            entry = {**_named(self._caption(row)), "decision": "keep" if keep else "drop"}
            if row in before.swaps:
                other = before.swaps[row]
                place = int(self.owners[other]), int(self.table.captions[other])
                entry |= {"decision": "swap", "with": self._swapped(other, place)}
            entries.append(entry)
        rows = [_kept_of(self._caption(row)) for row in before.keep]
        told = {"threshold": before.threshold, "decisions": entries}
        return {**told, "rows": rows, "digest": hashlib.sha256(json.dumps(told).encode()).hexdigest()}

    def _swapped(self, row: int, place: Place) -> dict[str, Any]:
        """A caption as a swap names it, with its words where it has any."""
        has_words = bool(self.source.pair(place[0]).captions)
        return {**_named(self._caption(row)), **({"text": self.text(place)} if has_words else {})}


def _apart(found: Sequence[FalseNegative], alike: set[tuple[int, int]], shown: _Shown) -> list[FalseNegative]:
    """The best of different pictures that can be read, each record once, whose captions are not the same words."""
    seen: set[int] = set()
    chosen = []
    for one in sorted(found, key=lambda one: -one.log_ratio):
        two = (min(one.record, one.place[0]), max(one.record, one.place[0]))
        if any(shown.lacks_picture(record) for record in two):
            continue
        own = {int(shown.table.fingerprints[row]) for row in shown.rows(one.record)}
        if two in alike or seen & set(two) or int(shown.table.fingerprints[shown.row(one.place)]) in own:
            continue
        seen |= set(two)
        chosen.append(one)
        if len(chosen) == STRANGERS:
            break
    return chosen


def words(pair: Pair, number: int) -> str:
    """A caption; features may come without."""
    return pair.captions[number] if number < len(pair.captions) else f"text {number} of {pair.key}"


def _named(caption: dict[str, Any]) -> dict[str, Any]:
    return {name: caption[name] for name in ("row", "key", "caption")}


def _kept_of(caption: dict[str, Any]) -> dict[str, Any]:
    """What the script needs of a caption, and of the one that may take its place."""
    found = {name: caption[name] for name in ("row", "key", "caption", "right", "keep")}
    proposal = caption.get("proposal")
    if proposal:
        found["with"] = proposal["saved"]
    return found
