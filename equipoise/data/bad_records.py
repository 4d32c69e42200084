"""Records that cannot be used: named, counted, replaced in training, and fatal once they are too many.

What is wrong with a record's text or name shows when files are indexed: such records are left out. What is wrong with
an image shows when it is decoded: the next readable record replaces it. Which one that is depends on the bad record
alone, so every process and every resumed run chooses the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from equipoise.types import UserError

MOST_IN_A_ROW = 100  # bad records that are tried for one place of a batch
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
    """Raised for a record that cannot be used, while others of its file can."""

    def __init__(self, place: str, reason: str):
        super().__init__(f"{place}: {reason}")
        self.fault = Fault(place, reason)


class BadRecordCount:
    """Counts records and faults, and ends the run where the faults are too many."""

    def __init__(self, max_bad: float):
        self.max_bad, self.seen, self.bad = max_bad, 0, 0
        self.faults: dict[str, Fault] = {}  # each bad record once, by its place

    def add(self, seen: int, faults: Iterable[Fault]) -> list[Fault]:
        """Counts more records with the faults among them; returns the faults that are new."""
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


Attempt = Callable[[Sequence[int], Sequence[int]], Mapping[int, Fault]]


def replace_bad(indices: Sequence[int], total: int, attempt: Attempt) -> tuple[list[int], tuple[Fault, ...]]:
    """Fills every place of a batch with its record, or with the next of the `total` records that can be read.

    `attempt(places, records)` tries to fill some places and returns the faults of those it could not. Returns the
    record of each place, and all faults.
    """
    used, faults, places = list(indices), list[Fault](), list(range(len(indices)))
    for _ in range(MOST_IN_A_ROW):
        bad = attempt(places, [used[place] for place in places])
        if not bad:
            return used, tuple(faults)
        places = sorted(bad)
        faults += [bad[place] for place in places]
        for place in places:
            used[place] = (used[place] + 1) % total
    raise UserError(f"{MOST_IN_A_ROW} records in a row cannot be read, the last of them {faults[-1]}; check the data")
