"""Numbers of the command line, within the bounds that those of a recipe have (`settings/bounds.py`)."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable

from equipoise.settings.bounds import BY_KIND, SEED, Bounds


def whole_number(text: str) -> int:
    most = BY_KIND[int].most
    return int(_within(text, int(text), Bounds(-most, most)))


def up_to(most: int) -> Callable[[str], int]:
    """Whole numbers up to `most`, where a larger one would take the memory or the time of a whole machine."""

    def number(text: str) -> int:
        return int(_within(text, int(text), Bounds(-most, most)))

    number.__name__ = "int"  # for argparse, which calls it so where the text is no number
    return number


def finite_number(text: str) -> float:
    return _within(text, float(text), BY_KIND[float])


def seed_number(text: str) -> int:
    return int(_within(text, int(text), SEED))


def _within(text: str, number: float, bounds: Bounds) -> float:
    if not bounds.least <= number <= bounds.most:  # nan is not, either
        raise ArgumentTypeError(f"{text[:60]} is not a number from {bounds.least:g} to {bounds.most:g}")
    return number
