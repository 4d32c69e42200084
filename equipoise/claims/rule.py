"""Rules of verdicts, as data: what must come out of the runs for a claim to hold. They are written before the runs.

A *part* is a sum over rows, Σ weight · metric(row) - constant, taken seed by seed (rows of one seed share their start
and their data), with the 95% interval of its mean (`interval.py`). `margin` is the smallest difference worth a word.

    above    holds           if the interval lies above 0
             does not hold   if it lies below `margin`: the claimed difference, were there any, is smaller than that
             undecided       otherwise
    level    holds           if the interval lies within ±margin
             does not hold   if it lies outside
             undecided       otherwise

A claim holds if all its parts do, holds in part if some do, does not hold if none does and one is refuted, and is
undecided otherwise. A *precondition* is what must be so for the rule to mean anything: a base that is neither at chance
nor at its ceiling, a guide that knows something. Where one fails the claim is not testable here,
whatever the parts say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import mul

from equipoise.claims.interval import mean_interval

HOLDS, FAILS, UNDECIDED = "holds", "does not hold", "undecided"
IN_PART, NOT_TESTABLE, NO_VERDICT, NOT_RUN = "holds in part", "not testable here", "no verdict", "not run yet"
WORDS = (HOLDS, IN_PART, FAILS, UNDECIDED, NOT_TESTABLE, NO_VERDICT, NOT_RUN)
LEAST_SEEDS = 5
Values = Mapping[str, Mapping[str, Sequence[float | None]]]  # row -> metric -> a value a seed, None where there is none


@dataclass(frozen=True)
class Part:
    says: str
    metric: str
    weights: tuple[tuple[str, float], ...]  # row, weight
    margin: float
    constant: float = 0.0
    level: bool = False

    def differences(self, values: Values) -> list[float]:
        """One number a seed that all rows have."""
        columns = [values.get(row, {}).get(self.metric, ()) for row, _ in self.weights]
        weights = [weight for _, weight in self.weights]
        whole = (seed for seed in zip(*columns, strict=False) if None not in seed)
        return [sum(map(mul, weights, seed)) - self.constant for seed in whole]


@dataclass(frozen=True)
class Precondition:
    says: str
    metric: str
    weights: tuple[tuple[str, float], ...]
    least: float = float("-inf")
    most: float = float("inf")


@dataclass(frozen=True)
class Judged:
    """A part, its interval and what follows."""

    part: Part
    mean: float
    low: float
    high: float
    word: str


@dataclass(frozen=True)
class Verdict:
    word: str
    why: str = ""
    parts: tuple[Judged, ...] = ()


def ahead(better: str, worse: str, metric: str = "R@1", margin: float = 1.0, says: str = "") -> Part:
    return Part(says or f"{better} is ahead of {worse}", metric, ((better, 1.0), (worse, -1.0)), margin)


def keeps(row: str, share: float, of: str, metric: str = "R@1", margin: float = 1.0, says: str = "") -> Part:
    """The row has at least this share of what another has."""
    return Part(says or f"{row} keeps {share:.0%} of {of}", metric, ((row, 1.0), (of, -share)), margin)


def loses(row: str, share: float, of: str, metric: str = "R@1", margin: float = 1.0, says: str = "") -> Part:
    """The row has less than this share of what another has."""
    return Part(says or f"{row} has less than {share:.0%} of {of}", metric, ((of, share), (row, -1.0)), margin)


def grows(rows: Sequence[str], metric: str, margin: float, says: str) -> Part:
    """The slope of the metric over the rows in their order, per row, by least squares."""
    middle = (len(rows) - 1) / 2
    total = sum((place - middle) ** 2 for place in range(len(rows)))
    weights = tuple((row, (place - middle) / total) for place, row in enumerate(rows))
    return Part(says, metric, weights, margin)


def gains_more(
    here: tuple[str, str], there: tuple[str, str], metric: str = "R@1", margin: float = 1.0, says: str = ""
) -> Part:
    """The first of `here` is further ahead of the second than the first of `there` is of the second."""
    weights = ((here[0], 1.0), (here[1], -1.0), (there[0], -1.0), (there[1], 1.0))
    return Part(says or f"{here[0]} gains more than {there[0]}", metric, weights, margin)


def level(one: str, other: str, metric: str, margin: float, says: str = "") -> Part:
    return Part(says or f"{one} and {other} are level", metric, ((one, 1.0), (other, -1.0)), margin, level=True)


def room(row: str, metric: str = "R@1", least: float = 5.0, most: float = 95.0) -> Precondition:
    return Precondition(f"{row} is neither at chance nor at its ceiling", metric, ((row, 1.0),), least, most)


def judge_part(part: Part, values: Values) -> Judged | None:
    """None where no seed has all rows."""
    differences = part.differences(values)
    if not differences:
        return None
    mean, low, high = mean_interval(differences)
    if part.level:
        word = HOLDS if -part.margin < low and high < part.margin else UNDECIDED
        word = FAILS if low >= part.margin or high <= -part.margin else word
    else:
        word = HOLDS if low > 0 else FAILS if high < part.margin else UNDECIDED
    return Judged(part, mean, low, high, word)


def decide(parts: Sequence[Part], preconditions: Sequence[Precondition], values: Values) -> Verdict:
    """The verdict of a claim whose runs gave these values."""
    judged = [judge_part(part, values) for part in parts]
    found = tuple(one for one in judged if one)
    if len(found) < len(judged):
        return Verdict(NOT_RUN, "some rows have no results yet", found)
    if fault := next((fault for one in preconditions if (fault := _fault(one, values))), ""):
        return Verdict(NOT_TESTABLE, fault, found)
    seeds = min(len(part.differences(values)) for part in parts)
    if seeds < LEAST_SEEDS:
        return Verdict(NO_VERDICT, f"{seeds} paired seeds, of {LEAST_SEEDS} at least", found)
    holding = [one.part.says for one in found if one.word == HOLDS]
    if len(holding) == len(found):
        return Verdict(HOLDS, "", found)
    if holding:
        return Verdict(IN_PART, "; ".join(holding), found)
    refuted = any(one.word == FAILS for one in found)
    return Verdict(FAILS if refuted else UNDECIDED, "", found)


def _fault(condition: Precondition, values: Values) -> str:
    """Why a precondition is not met; nothing where it is."""
    part = Part(condition.says, condition.metric, condition.weights, 0.0)
    differences = part.differences(values)
    if not differences:
        return f"it was not measured whether {condition.says}"
    mean = sum(differences) / len(differences)
    if condition.least <= mean <= condition.most:
        return ""
    bound = f"at least {condition.least:g}" if mean < condition.least else f"at most {condition.most:g}"
    return f"it is not so that {condition.says}: {condition.metric} is {mean:.3g}, and would have to be {bound}"
