"""Settings of a fine-tuning run: its start model, and how the share of the way to its end is chosen."""

from __future__ import annotations

import math
from dataclasses import dataclass

from equipoise.types import UserError

TENTHS = tuple(number / 10 for number in range(11))


@dataclass(frozen=True)
class Finetuning:
    start: str = ""  # the start model, as it was named; "": the run trains from scratch
    method: str = ""  # that gave its settings
    tau: float = 0.0  # the temperature to start with, as 1/exp(t); 0 keeps that of the start model
    wise: bool = True  # at the end, look for the best place between start and end (`wise_ft.py`)
    shares: tuple[float, ...] = TENTHS  # of the end, where to look

    def __post_init__(self) -> None:
        if not 0 <= self.tau < math.inf:
            raise UserError(f"tau must be positive, or 0 to keep the start model's temperature, not {self.tau}")
        if not self.shares or not all(0 <= share <= 1 for share in self.shares):
            raise UserError(f"shares must be numbers from 0 to 1, at least one, not {list(self.shares)}")

    @property
    def tried(self) -> tuple[float, ...]:
        """Shares of the end to score, in ascending order."""
        return tuple(sorted(set(self.shares))) if self.wise else (1.0,)

    @property
    def cites(self) -> tuple[str, ...]:
        return ("wortsman2022robust",) if self.start and self.wise else ()
