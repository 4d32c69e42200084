"""Linear probing first, then everything: the first phase of a run trains the readouts alone.

Kumar et al. 2022, "Fine-Tuning can Distort Pretrained Features and Underperform Out-of-Distribution" (LP-FT), §3.3:
fine-tuning from a last layer that does not suit the data moves the towers to make up for it; one that was fitted first
leaves them where they were. Oh et al. 2023, App. A.2: "both the linear head and full models during half of the epochs".

    step ≤ round(share · steps)    the readouts (`freezing.py`), at `learning_rate`
    after                          what `training.trains` names, at `training.learning_rate`

Each phase has a warm-up and a cosine of its own, and batch norm keeps its statistics, as in the authors' code. It
follows from the step's number, so a resumed run knows it. With `augment = false` the first phase sees pictures as
evaluation does, as the authors probe features that were computed once; by default both see them augmented. Unlike in
the paper the readouts' moments go on from the first to the second.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from equipoise.types import UserError


@dataclass(frozen=True)
class ProbePhase:
    share: float = 0.0  # of the steps; 0: everything from the start
    learning_rate: float = 1e-3  # of that phase
    augment: bool = True  # False: pictures as in evaluation, neither cropped at random nor changed

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise UserError(f"share must be in [0, 1), not {self.share}")
        if not 0 < self.learning_rate < math.inf:
            raise UserError(f"learning_rate must be positive, not {self.learning_rate}")

    @property
    def cites(self) -> tuple[str, ...]:
        return ("kumar2022finetuning",) if self.share else ()

    def steps_of(self, steps: int) -> int:
        """Steps that probe, in a run of `steps`."""
        return round(self.share * steps)

    def plain_steps_of(self, steps: int) -> int:
        """Steps whose pictures are not augmented."""
        return 0 if self.augment else self.steps_of(steps)
