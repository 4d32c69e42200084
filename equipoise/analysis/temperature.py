"""How the temperature of runs moved: where it started, where it settled, and when.

Sun and Li 2024, "Analyzing the Impact of Learnable Softmax Temperature ...", §2.4, Fig. 3 and Table 7.

The curves come from a run's `metrics.jsonl`, where "temperature" is τ = exp(t) as the loss used it. The step of
convergence follows `evaluation/temperature_convergence.py`. The share of steps at the bound is that of logged steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from equipoise.evaluation.temperature_convergence import converged_at
from equipoise.training.logging.metrics import METRICS_FILE, read_metrics
from equipoise.types import UserError


@dataclass(frozen=True)
class TemperatureCurve:
    run: str
    label: str  # the space and the start
    steps: list[int]
    scales: list[float]  # exp(t), one a step
    start: float  # exp(t) before the first step
    learnable: bool
    epoch_steps: int
    converged: int | None
    at_bound: float  # share of the logged steps

    @property
    def final(self) -> float:
        return self.scales[-1]


def read_temperature(folder: Path) -> Sequence[Mapping[str, float]]:
    """The records of a run that hold a temperature, or a sentence."""
    path = folder / METRICS_FILE
    if not path.is_file():
        hint = "" if folder.is_dir() else " (there is no such folder)"
        raise UserError(f"no metrics in {folder}{hint}: a run's folder holds {METRICS_FILE}; give the folder of a run")
    records = [record for record in read_metrics(path) if "temperature" in record and "step" in record]
    if not records:
        raise UserError(f"{path} holds no temperature yet; let the run log a step first")
    return records


def temperature_curve(
    run: str, label: str, records: Sequence[Mapping[str, float]], *, start: float, learnable: bool, epoch_steps: int
) -> TemperatureCurve:
    if epoch_steps < 1:
        raise UserError(f"an epoch has at least 1 step, not {epoch_steps}; correct --epoch-steps")
    steps, scales = [int(record["step"]) for record in records], [float(record["temperature"]) for record in records]
    return TemperatureCurve(
        run,
        label,
        steps,
        scales,
        start,
        learnable,
        epoch_steps,
        converged_at(steps, scales, epoch_steps) if learnable else None,
        sum(bool(record.get("at_bound")) for record in records) / len(records),
    )
