"""Numbers of the command line, within the bounds that those of a recipe have (`settings/bounds.py`)."""

from __future__ import annotations

import math
from argparse import ArgumentTypeError

from equipoise.settings.bounds import BY_KIND, SEED, Bounds


def whole_number(text: str) -> int:
    most = BY_KIND[int].most
    return int(_within(text, int(text), Bounds(-most, most)))


def finite_number(text: str) -> float:
    return _within(text, float(text), BY_KIND[float])


def seed_number(text: str) -> int:
    return int(_within(text, int(text), SEED))


def _within(text: str, number: float, bounds: Bounds) -> float:
    if not (math.isfinite(number) and bounds.least <= number <= bounds.most):
        raise ArgumentTypeError(f"{text[:60]} is not a number from {bounds.least:g} to {bounds.most:g}")
    return number
