"""How the temperature of a run went: where it ended, when it had settled, how long it sat at its bound.

The step at which it settled is that of `temperature_convergence.py`. It may move again later. Logging less often than a
few times an epoch makes the answer coarse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from equipoise.evaluation.temperature_convergence import converged_at

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
    steps, values = ([record[name] for record in logged] for name in ("step", "temperature"))
    clamped = float(np.mean([record.get("at_bound", 0.0) for record in logged]))
    return Course(values[-1], converged_at(steps, values, epoch, SETTLED), clamped)
