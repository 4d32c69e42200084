"""What a sweep goes over: `--over KEY=a,b,c`, several of which are combined, each combination with every seed."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from equipoise.settings.one_line import one_line
from equipoise.types import UserError

MOST = 1000  # trials
LONGEST = 100  # letters of a folder's name
NOT_SWEPT = {"seed": "--seeds N trains every combination with N seeds", "name": "folders are named by the settings"}
OPENING, CLOSING, QUOTES = "[{", "]}", "\"'"


@dataclass(frozen=True)
class Trial:
    """One run of the sweep."""

    values: tuple[tuple[str, str], ...]  # key and value of every setting that is swept, as typed
    seed: int

    @property
    def settings(self) -> list[str]:
        """What `--set` takes."""
        return [*(f"{key}={value}" for key, value in self.values), f"seed={self.seed}"]

    @property
    def told(self) -> str:
        return ", ".join(f"{key} = {value}" for key, value in self.values)

    @property
    def name(self) -> str:
        """A folder's name that says the settings; it does not depend on the other trials, so that a sweep may grow."""
        words = [f"{key.rpartition('.')[2]}-{value}" for key, value in self.values]
        plain = re.sub(r"[^\w.+-]+", "-", "_".join(words), flags=re.ASCII).strip("-")
        digest = hashlib.sha256(repr(self.values).encode()).hexdigest()[:8]
        return f"{plain[:LONGEST]}-{digest}-seed-{self.seed}"


def parse_over(texts: Sequence[str]) -> dict[str, list[str]]:
    """The values of every key; raises UserError for what is no `KEY=a,b,c`."""
    over: dict[str, list[str]] = {}
    for text in texts:
        key, equals, listed = (part.strip() for part in text.partition("="))
        place = f"--over {one_line(text.strip())}"
        values = split_values(listed)
        if not equals or not key or not all(values):
            raise UserError(f"{place}: this is not of the form key=a,b,c; write for example training.learning_rate=1,2")
        if key in NOT_SWEPT:
            raise UserError(f"{place}: {key} cannot be swept: {NOT_SWEPT[key]}")
        if key in over:
            raise UserError(f"{place}: {key} was given before; name all its values at once")
        if len(set(values)) < len(values):
            raise UserError(f"{place}: a value is named twice; name each once")
        over[key] = values
    if not over:
        raise UserError("nothing to sweep; name a setting and its values, --over training.learning_rate=1e-4,1e-3")
    return over


def split_values(text: str) -> list[str]:
    """The values between commas; those within brackets, braces or quotes are parts of one value."""
    values, depth, quote = [""], 0, ""
    for sign in text:
        if quote:
            quote = "" if sign == quote else quote
        elif sign in QUOTES:
            quote = sign
        elif sign == "," and not depth:
            values.append("")
            continue
        depth += 0 if quote else (sign in OPENING) - (sign in CLOSING)
        values[-1] += sign
    return [value.strip() for value in values]


def trials_of(over: Mapping[str, Sequence[str]], seeds: Sequence[int]) -> list[Trial]:
    """All trials, seeds in the outer loop: what is there after half of the time is a whole table with fewer seeds."""
    combinations = list(_combinations(over))
    if len(combinations) * len(seeds) > MOST:
        raise UserError(f"these are {len(combinations) * len(seeds):,} trials, more than {MOST:,}; name fewer values")
    return [Trial(values, seed) for seed in seeds for values in combinations]


def _combinations(over: Mapping[str, Sequence[str]]) -> Iterator[tuple[tuple[str, str], ...]]:
    for values in itertools.product(*over.values()):
        yield tuple(zip(over, values, strict=True))
