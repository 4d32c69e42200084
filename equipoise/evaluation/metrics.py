"""A metric: what its number says, and how the number is printed.

share    a fraction in [0, 1], printed as a percentage             guessing has an expectation
points   percentage points, such as the sum of several shares      guessing has an expectation
count    how many there are; not printed in tables                 no chance value
cost     how much was computed for it                              no chance value
plain    a distance or a similarity, whose range is the space's    no chance value
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

DIRECTIONS = ("image_to_text", "text_to_image")
ARROWS = {"image_to_text": "image → text", "text_to_image": "text → image"}


def percent(value: float) -> str:
    """A share with as many digits as carry meaning: 91.3%, 0.10%, 0.002%."""
    digits = 1 if value >= 0.01 or value == 0 else 2 if value >= 0.001 else 3
    return f"{100 * value:.{digits}f}%"


KINDS: dict[str, Callable[[float], str]] = {
    "share": percent,
    "points": "{:.1f}".format,
    "count": "{:,.0f}".format,
    "cost": "{:,.0f}".format,
    "plain": "{:.3f}".format,
}


@dataclass(frozen=True)
class Metric:
    """What is known of a metric beside its name and its value."""

    short: str  # name for people
    meaning: str = ""
    kind: str = "share"  # one of KINDS
    direction: str = ""  # "image → text", "text → image" or ""

    @property
    def is_count(self) -> bool:
        return self.kind == "count"

    @property
    def is_share(self) -> bool:
        return self.kind == "share"

    @property
    def has_chance(self) -> bool:
        """Whether a result must hold the expectation of guessing beside the value."""
        return self.kind in ("share", "points")

    @property
    def label(self) -> str:
        return f"{self.direction}  {self.short}".strip()

    def show(self, value: float) -> str:
        """The value as it is printed."""
        return KINDS[self.kind](value)


def both_directions(metrics: Mapping[str, Metric]) -> dict[str, Metric]:
    """The metrics under the names `image_to_text_...` and `text_to_image_...`."""
    return {
        f"{direction}_{name}": replace(metric, direction=ARROWS[direction])
        for direction in DIRECTIONS
        for name, metric in metrics.items()
    }
