"""The captions that an audit suspects, to be judged by a person: the keep file of `equipoise clean`, its data, and
`decisions.json` beside it, the same file that the page for curators saves and that training goes by."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from equipoise.data.keep.decisions import Decisions, digest_of_table, read_decisions
from equipoise.data.keep.file import TABLE, read_keep
from equipoise.data.keep.save_decisions import decided, decision_on, save_decisions
from equipoise.data.side_data import fingerprints
from equipoise.data.source import Pair, Source
from equipoise.serve.errors import Refused
from equipoise.serve.memory_index import jpeg
from equipoise.types import UserError
from equipoise.workflows.clean.judged_data import judged_data
from equipoise.workflows.clean.page import words


@dataclass(frozen=True)
class Suspect:
    row: int  # of the keep file
    key: str
    caption: int  # its number
    text: str
    others: tuple[str, ...]  # further captions of the same picture
    right: float  # P(right)
    kind: str  # what seems wrong with it; empty where nothing does
    kept: bool  # by the rule
    decision: str | None  # of a person
    instead: str | None  # the caption that takes its place, where it was swapped


class Suspects:
    def __init__(self, folder: Path):
        self.folder = folder
        self.table, self.note = read_keep(folder)
        self.digest = digest_of_table(self.table)
        self._stamp = self._stamp_now()
        self._writing, self._opening, self._drawing = threading.Lock(), threading.Lock(), threading.Lock()
        self.order = self.table.suspicious()
        self.owners = np.cumsum(self.table.captions == 0) - 1  # the record of each row
        self.starts = np.flatnonzero(self.table.captions == 0)

    def __len__(self) -> int:
        return len(self.order)

    @property
    def finding(self) -> str:
        return str(self.note.get("finding", ""))

    @property
    def source(self) -> Source:
        with self._opening:  # several visitors may be the first
            return self._source

    @cached_property
    def _source(self) -> Source:
        """The data that was judged, as the keep file's note describes it."""
        source = judged_data(self.folder, self.note)
        if len(source) != len(self.starts):
            raise UserError(
                f"{self.folder / TABLE} is of {len(self.starts):,} records, but its data has {len(source):,} now; "
                "clean the data again"
            )
        return source

    def decisions(self) -> Decisions:
        return read_decisions(self.folder, self.table)

    def some(self, start: int, count: int) -> list[Suspect]:
        """The suspects from a place on, the least likely right first."""
        decisions = self.decisions()
        return [self._suspect(int(row), decisions) for row in self.order[start : start + count]]

    def one(self, row: int) -> Suspect:
        self._require_row(row)
        return self._suspect(row, self.decisions())

    def _suspect(self, row: int, decisions: Decisions) -> Suspect:
        pair, number = self._pair(row), int(self.table.captions[row])
        count = len(pair.captions)
        other = decisions.swaps.get(row)
        return Suspect(
            row=row,
            key=pair.key,
            caption=number,
            text=words(pair, number),
            others=tuple(words(pair, place) for place in range(count) if place != number),
            right=float(self.table.right[row]),
            kind=self.table.kinds[row] if self.table.kinds else "",
            kept=bool(self.table.keep[row]),
            decision=decision_on(decisions, row),
            instead=None if other is None else self.text(other),
        )

    def text(self, row: int) -> str:
        return words(self._pair(row), int(self.table.captions[row]))

    def _pair(self, row: int) -> Pair:
        pair, number = self.source.pair(int(self.owners[row])), int(self.table.captions[row])
        has_words = number < len(pair.captions)
        if pair.key != self.table.keys[row] or (
            has_words and int(fingerprints([pair.captions[number]])[0]) != int(self.table.fingerprints[row])
        ):
            raise UserError(f"{self.folder / TABLE} is of other data than is there now; clean the data again")
        return pair

    def picture(self, row: int) -> bytes:
        self._require_row(row)
        source = self.source
        with self._drawing:  # sources are made for one reader
            found = jpeg(source, int(self.owners[row]))
        if found is None:
            raise Refused(404, "this record has no picture")
        return found

    def likely_right(self, most: int) -> list[int]:
        """Rows of the captions that are the likeliest to be right, one a record."""
        rows = [int(row) for row in reversed(self.order) if self.table.keep[row]]
        best = {int(self.owners[row]): row for row in reversed(rows)}  # the likeliest of each record comes last
        return sorted(best.values(), key=lambda row: -float(self.table.right[row]))[:most]

    def decide(self, row: int, decision: str | None, other: int | None) -> Decisions:
        """Note a decision in the file, beside those that are there; None takes one back."""
        for one in (row, other):
            if one is not None:
                self._require_row(one)
        with self._writing:
            if self._stamp_now() != self._stamp:
                raise Refused(409, "the data was cleaned again since this service began; start the service anew")
            now = decided(self.decisions(), row, decision, other)
            save_decisions(self.folder, self.table, now, self.digest)
        return now

    def _require_row(self, row: int) -> None:
        if not 0 <= row < len(self.table):
            raise Refused(404, f"there is no caption {row}")

    def _stamp_now(self) -> tuple[int, int] | None:
        try:
            status = (self.folder / TABLE).stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size
