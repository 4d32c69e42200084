"""How the temperature of a run went: where it ended, when it had settled, how long it sat at its bound.

Sun & Li 2024, App. C, Table 7: the temperature has converged at the first step after which it "changes less than 2% for
an epoch".

    converged = min { k : |τ_j - τ_k| < 0.02 τ_k  for every logged j in [k, k + E] },   k + E within the run

τ = exp(t), the number that similarities are multiplied by, at the logged steps; E the steps of an epoch. The paper does
not say whether it means t or exp(t); t may be 0, so a share of it says nothing. It may move again later (theirs does,
slowly). Logging less often than a few times an epoch makes the answer coarse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

SETTLED = 0.02


@dataclass(frozen=True)
class Course:
    """What the logged temperatures of a run say."""

    final: float  # exp(t)
    converged: int | None  # step; None where it did not settle, or an epoch was not seen
    clamped: float  # share of the logged steps at the bound

    def metrics(self) -> dict[str, float]:
        step = {} if self.converged is None else {"temperature/converged_step": float(self.converged)}
        return {"temperature/final": self.final, **step, "temperature/clamped_share": self.clamped}

    def sentence(self, epoch: int) -> str:
        settled = f"changed by less than {SETTLED:.0%} within an epoch ({epoch:,} steps)"
        when = f"never {settled}" if self.converged is None else f"first {settled} from step {self.converged:,} on"
        bound = f"It sat at its bound for {self.clamped:.0%} of the run." if self.clamped else "It never met its bound."
        return f"It ended at {self.final:.3g} (t = {np.log(self.final):.2f}) and {when}. {bound}"


def course(records: Sequence[Mapping[str, float]], epoch: int) -> Course | None:
    """From the records of metrics.jsonl; None where they hold no temperature."""
    logged = [record for record in records if "temperature" in record]
    if not logged:
        return None
    steps = np.array([record["step"] for record in logged])
    values = np.array([record["temperature"] for record in logged], dtype=float)
    clamped = float(np.mean([record.get("at_bound", 0.0) for record in logged]))
    return Course(float(values[-1]), _converged(steps, values, epoch), clamped)


def _converged(steps: np.ndarray, values: np.ndarray, epoch: int) -> int | None:
    for place, step in enumerate(steps):
        if step + epoch > steps[-1]:
            return None
        window = values[place : np.searchsorted(steps, step + epoch, side="right")]
        if np.all(np.abs(window - values[place]) < SETTLED * values[place]):
            return int(step)
    return None
