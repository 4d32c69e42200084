"""What fine-tuning on classes changed: accuracy in distribution and on shifted sets, before and after.

Oh et al. 2023, "Geodesic Multi-Modal Mixup for Robust Fine-Tuning", App. A.2 (Metric): top-1 accuracy as ID and OOD
accuracy; Wortsman et al. 2022, "Robust fine-tuning of zero-shot models", §3.

    gained = after - before            forgotten = max(0, before - after)

of every set, and of the mean over the shifted ones. Numbers of two models say something side by side alone where they
were measured on the same data, which is for the caller to see to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from equipoise.data.few_shot import SHIFTED
from equipoise.evaluation.evaluator import EvalResult
from equipoise.evaluation.metrics import percent
from equipoise.io.tables import make_table
from equipoise.types import UserError

if TYPE_CHECKING:
    from rich.table import Table

IN_DISTRIBUTION = "in distribution"
MEAN = "mean of the shifts"
COLUMNS = ("set", "chance", "before", "after", "gained", "forgotten")


@dataclass(frozen=True)
class AccuracyChange:
    """Accuracy on one set, before and after."""

    chance: float
    before: float
    after: float

    @property
    def gained(self) -> float:
        return self.after - self.before

    @property
    def forgotten(self) -> float:
        return max(0.0, self.before - self.after)


@dataclass(frozen=True)
class Robustness:
    sets: Mapping[str, AccuracyChange]  # in distribution first, then every shift, then their mean

    def numbers(self) -> dict[str, float]:
        """Named numbers: `in distribution/before`, `texture/forgotten`, ..."""
        parts = ("before", "after", "gained", "forgotten")
        return {f"{name}/{part}": getattr(change, part) for name, change in self.sets.items() for part in parts}

    def rows(self) -> list[tuple[str, ...]]:
        """Printed cells per set, under `COLUMNS`."""
        return [
            (name, percent(one.chance), percent(one.before), percent(one.after), _signed(one.gained), _lost(one))
            for name, one in self.sets.items()
        ]

    def table(self, title: str = "accuracy before and after") -> Table:
        """A table for the terminal."""
        return make_table(COLUMNS, self.rows(), title=title)


def robustness(before: Mapping[str, EvalResult], after: Mapping[str, EvalResult]) -> Robustness:
    """Compares results of `evaluate` for the model before and after, on the same data."""
    sides = [_accuracies(findings) for findings in (before, after)]
    if sides[0].keys() != sides[1].keys() or not sides[0]:
        names = " and ".join(", ".join(side) or "none" for side in sides)
        raise UserError(
            f"before and after must be accuracies on the same sets, not on {names}; evaluate both on the same data"
        )
    chance = _accuracies(after, "chance")
    return Robustness({name: AccuracyChange(chance[name], sides[0][name], sides[1][name]) for name in sides[0]})


def _accuracies(findings: Mapping[str, EvalResult], part: str = "metrics") -> dict[str, float]:
    own, shifts = (getattr(findings[name], part) if name in findings else {} for name in ("zero_shot", "shifts"))
    found = {IN_DISTRIBUTION: own["acc1"]} if own else {}
    named = {name.removeprefix("acc1_"): value for name, value in shifts.items()}
    return {**found, **{MEAN if name == SHIFTED else name: value for name, value in named.items()}}


def _signed(share: float) -> str:
    return f"{100 * share:+.1f}"


def _lost(change: AccuracyChange) -> str:
    return f"{100 * change.forgotten:.1f}" if change.forgotten else ""
