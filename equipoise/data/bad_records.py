"""Records that cannot be used: named, counted, stepped over, and fatal once they are too many.

What is wrong with a record's text or name shows when files are indexed: such records are left out. What is wrong with
a picture shows when it is decoded: another record stands in for it (see `batches.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from torch import Tensor

from equipoise.types import UserError

FEW = 10  # bad records that are never too many, whatever their share, unless none are allowed
ADVICE = "`equipoise data check` lists them all; mend the data or raise data.max_bad"


@dataclass(frozen=True)
class Fault:
    """What is wrong with one record."""

    place: str  # the file, and the record in it
    reason: str

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


class BadRecord(UserError):
    """A record that cannot be used, while others of its file can."""

    def __init__(self, place: str, reason: str):
        super().__init__(f"{place}: {reason}")
        self.fault = Fault(place, reason)


class BadRecords(UserError):
    """Some of the pictures asked for cannot be decoded; `pixels` holds the others."""

    def __init__(self, pixels: Tensor, faults: Mapping[int, Fault]):
        super().__init__(str(next(iter(faults.values()))))
        self.pixels, self.faults = pixels, dict(faults)  # by place among the pictures asked for


class BadRecordCount:
    """Counts records and faults, and ends the run where the faults are too many."""

    def __init__(self, max_bad: float):
        self.max_bad, self.seen, self.bad = max_bad, 0, 0
        self.faults: dict[str, Fault] = {}  # each bad record once, by its place

    def add(self, seen: int, faults: Iterable[Fault]) -> list[Fault]:
        """Counts more records with the faults among them; gives the faults that are new."""
        faults = list(faults)
        self.seen, self.bad = self.seen + seen, self.bad + len(faults)
        new = {fault.place: fault for fault in faults if fault.place not in self.faults}
        self.faults |= new
        if self.bad > max(FEW if self.max_bad else 0, self.max_bad * self.seen):
            first = next(iter(self.faults.values()))
            raise UserError(
                f"{self.bad:,} of {self.seen:,} records cannot be used, more than the share of {self.max_bad:g} that "
                f"data.max_bad allows; the first is {first}; {ADVICE}"
            )
        return list(new.values())
