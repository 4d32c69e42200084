"""Records that cannot be used: named, counted, replaced in training, and fatal once they are too many.

What is wrong with a record's text or name shows when files are indexed: such records are left out. What is wrong with
an image shows when it is decoded, and that a tokenizer leaves nothing of a caption when it is read: the next readable
record replaces it. Which one that is depends on the bad record alone, so every process and every resumed run chooses
the same.

A record counts where it is drawn itself, once in an epoch; one that was passed on the way to a replacement does not,
or a few bad records that lie next to each other would be counted again and again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from equipoise.types import UserError

IN_A_ROW = 100  # bad records that are tried one after the other for one place of a batch
FURTHER = 20  # then these, each twice as far away: a whole shard may be damaged
STEPS = [1] * (IN_A_ROW - 1) + [2**power for power in range(1, FURTHER + 1)]
FEW = 10  # bad records that are never too many, whatever their share, unless none are allowed
SPREADS = 5  # standard deviations above the share allowed that no order drawn at random reaches by chance
ADVICE = "`equipoise data check` lists them all; mend the data or raise data.max_bad"


@dataclass(frozen=True)
class Fault:
    """What is wrong with one record."""

    place: str  # the file, and the record in it
    reason: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "place", printable(self.place))

    def __str__(self) -> str:
        return f"{self.place}: {self.reason}"


class BadRecord(UserError):
    """Raised for a record that cannot be used, while others of its file can."""

    def __init__(self, place: str, reason: str):
        self.fault = Fault(place, reason)
        super().__init__(str(self.fault))

    def __reduce__(self) -> tuple[type[BadRecord], tuple[str, str]]:
        return type(self), (self.fault.place, self.fault.reason)


def printable(name: str) -> str:
    """A name of the file system, which need not be UTF-8, as text that can be written anywhere."""
    return name.encode("utf-8", "backslashreplace").decode()


@dataclass(frozen=True)
class Tally:
    """Records seen, and those of them that could not be used."""

    seen: int = 0
    bad: int = 0


class BadRecordCount:
    """Counts records, each once, and ends the run where the bad ones are more than a share of all `total`."""

    def __init__(self, max_bad: float, total: int):
        self.max_bad, self.total = max_bad, total
        self.tally = Tally()
        self.last: Fault | None = None

    def add(self, seen: int, faults: Sequence[Fault]) -> None:
        """Counts more records with the faults among them."""
        self.tally = Tally(self.tally.seen + seen, self.tally.bad + len(faults))
        self.last = faults[-1] if faults else self.last
        if self.tally.bad > max(FEW if self.max_bad else 0, self._allowed()):
            named = f"; one of them is {faults[0]}" if faults else ""
            raise UserError(
                f"{self.tally.bad:,} of {self.tally.seen:,} records cannot be used, more than the share of "
                f"{self.max_bad:g} that data.max_bad allows{named}; {ADVICE}"
            )

    def _allowed(self) -> float:
        return self.max_bad * self.total


class EpochCount(BadRecordCount):
    """Counts the records of each epoch of training, from 0, which are drawn in an order that is shuffled anew.

    As the order is random, far too many bad records show long before the end of an epoch, and a few that happen to
    come early are no more than chance.
    """

    def __init__(self, max_bad: float, total: int, batches_per_epoch: int):
        super().__init__(max_bad, total)
        self.batches_per_epoch = batches_per_epoch
        self._before: dict[int, Tally] = {}  # by position, of the last two

    def add_batch(self, position: int, seen: int, faults: Sequence[Fault]) -> None:
        """Counts the records of the batch at a position."""
        if position % self.batches_per_epoch == 0:
            self.tally = Tally()
        before = self.tally
        self.add(seen, faults)
        self._before = {position: before, position + 1: self.tally}

    def before(self, position: int) -> Tally:
        """What had been counted when the batch at `position` was asked for, be it the last one made or the next."""
        return self._before.get(position, self.tally)

    def _allowed(self) -> float:
        expected = self.max_bad * self.tally.seen
        return min(super()._allowed(), expected + SPREADS * math.sqrt(expected))


def tallies_to_json(tallies: Iterable[Tally]) -> list[dict[str, int]]:
    return [vars(tally) for tally in tallies]


def tally_of_part(stored: Any, part: int, parts: int) -> Tally:
    """The tally that one of several processes goes on with, from those of all that were stored: its own, or an even
    share where there were more or fewer of them. Raises ValueError for what is no list of tallies."""
    tallies = [_tally(entry) for entry in stored] if isinstance(stored, list) else None
    if tallies is None:
        raise ValueError("bad_records is no list of tallies")
    if len(tallies) == parts:
        return tallies[part]
    seen, bad = (sum(getattr(tally, name) for tally in tallies) for name in ("seen", "bad"))
    return Tally(*((whole + part) // parts for whole in (seen, bad)))


def _tally(stored: Any) -> Tally:
    seen, bad = (stored.get("seen"), stored.get("bad")) if isinstance(stored, dict) else (None, None)
    if type(seen) is not int or type(bad) is not int or not 0 <= bad <= seen:
        raise ValueError("bad_records is no list of tallies")
    return Tally(seen, bad)


Attempt = Callable[[Sequence[int], Sequence[int]], Mapping[int, Fault]]


def replace_bad(indices: Sequence[int], total: int, attempt: Attempt) -> tuple[list[int], tuple[Fault, ...]]:
    """Fills every place of a batch with its record, or with the next of the `total` records that can be read.

    `attempt(places, records)` tries to fill some places and returns the faults of those it could not. Returns the
    record of each place, and the faults of `indices` themselves, one per record.
    """
    used, places = list(indices), list(range(len(indices)))
    bad = drawn = attempt(places, used)
    for step in STEPS:
        if not bad:
            break
        places = sorted(bad)
        for place in places:
            used[place] = (used[place] + step) % total
        bad = attempt(places, [used[place] for place in places])
    if bad:
        last = bad[max(bad)]
        raise UserError(f"{IN_A_ROW} records in a row cannot be read, nor others beyond them ({last}); check the data")
    return used, tuple(drawn[place] for place in sorted(drawn))
