"""How the logit scale exp(t) of a run went: where it ended, when it had settled, how long it sat at its bound.

Sun and Li 2024, "Analyzing the Impact of Learnable Softmax Temperature ...", App. C, Table 7 ("Converge Step"): the
step at which the temperature "starts to converge (changes less than 2% for an epoch)".

    converged_at = min { s : |exp(t(s')) / exp(t(s)) - 1| < tolerance for every logged s' > s }         ours
    first_rest   = min { s : the same for every logged s' in (s, s + epoch] }                           the paper's

exp(t) is the scale, not its logarithm. Only steps after which a whole epoch was logged can qualify, so a run shorter
than an epoch, or one that still moves at its end, gives None. The paper's rule looks one epoch ahead and no further: a
curve that creeps, by less than 2% an epoch, "converges" at its first step however far it goes, and one that rests and
moves on later at its first rest. So what is called converged here has converged for good, and the first rest stands
beside it, for comparison with the paper's table. Logging less often than a few times an epoch makes both coarse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from equipoise.evaluation.metrics import Metric

SETTLED = 0.02
METRICS: Mapping[str, Metric] = {
    "final": Metric("exp(t) at the end", "The logit scale, 1/τ, of the last step that was logged.", "plain"),
    "unit_free_t": Metric("t without the space's unit", "The last t, plus ln of the spread of similarities.", "plain"),
    "converged_step": Metric("step of convergence", "From here on exp(t) changed by less than 2%.", "cost"),
    "first_rest_step": Metric("step of the first rest", "The same within one epoch, as the paper counts.", "cost"),
    "clamped_share": Metric("share at the bound", "Of the logged steps, those at the largest logit scale."),
}


@dataclass(frozen=True)
class LogitScaleCourse:
    """What the logged logit scales of a run say."""

    final: float  # exp(t)
    converged: int | None  # step; None where it did not settle, or an epoch was not seen
    clamped: float  # share of the logged steps at the bound
    first_rest: int | None = None  # the step of convergence by the paper's rule
    unit_free: float | None = None  # the last t without the space's unit; None where the space has no spread

    def metrics(self) -> dict[str, float]:
        found = {
            "final": self.final, "unit_free_t": self.unit_free, "converged_step": self.converged,
            "first_rest_step": self.first_rest, "clamped_share": self.clamped,
        }  # fmt: skip
        return {f"logit_scale/{name}": float(value) for name, value in found.items() if value is not None}

    def sentence(self, epoch: int) -> str:
        settled = f"changed by less than {SETTLED:.0%} in all that followed, an epoch ({epoch:,} steps) or more"
        when = f"never {settled}" if self.converged is None else f"from step {self.converged:,} on {settled}"
        bound = f"It sat at its bound for {self.clamped:.0%} of the run." if self.clamped else "It never met its bound."
        unit = "" if self.unit_free is None else f"; without the space's unit {self.unit_free:.2f}"
        return f"It ended at {self.final:.3g} (t = {np.log(self.final):.2f}{unit}) and {when}. {bound}"


def logit_scale_course(records: Sequence[Mapping[str, float]], epoch: int) -> LogitScaleCourse | None:
    """Reads the records of metrics.jsonl; None where they hold no logit scale."""
    logged = [record for record in records if "logit_scale" in record]
    if not logged:
        return None
    steps, values = ([record[name] for record in logged] for name in ("step", "logit_scale"))
    clamped = float(np.mean([record.get("at_bound", 0.0) for record in logged]))
    return LogitScaleCourse(
        values[-1],
        converged_at(steps, values, epoch, SETTLED),
        clamped,
        first_rest(steps, values, epoch, SETTLED),
        logged[-1].get("unit_free_t"),
    )


def converged_at(
    steps: Sequence[float], scales: Sequence[float], epoch_steps: float, tolerance: float = 0.02
) -> int | None:
    """The first of `steps` (rising) after which `scales` stay within `tolerance` to the end, an epoch at least; None
    where none is."""
    assert len(steps) == len(scales), "one scale per step"
    at, scale = np.asarray(steps, dtype=float), np.asarray(scales, dtype=float)
    for number in range(len(at) - 1):
        if at[-1] < at[number] + epoch_steps:
            return None
        if np.abs(scale[number + 1 :] / scale[number] - 1).max() < tolerance:
            return int(at[number])
    return None


def first_rest(
    steps: Sequence[float], scales: Sequence[float], epoch_steps: float, tolerance: float = 0.02
) -> int | None:
    """The first of `steps` (rising) after which `scales` stay within `tolerance` for an epoch; None where none is."""
    assert len(steps) == len(scales), "one scale per step"
    at, scale = np.asarray(steps, dtype=float), np.asarray(scales, dtype=float)
    for number, step in enumerate(at):
        if at[-1] < step + epoch_steps:
            return None
        until = np.searchsorted(at, step + epoch_steps, side="right")
        change = np.abs(scale[number + 1 : until] / scale[number] - 1)
        if change.size and change.max() < tolerance:
            return int(step)
    return None
