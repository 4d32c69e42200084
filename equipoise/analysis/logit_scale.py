"""How the logit scale of runs moved: where it started, where it settled, and when.

Sun and Li 2024, "Analyzing the Impact of Learnable Softmax Temperature ...", §2.4, Fig. 3 and Table 7.

The curves come from a run's `metrics.jsonl`, where "logit_scale" is exp(t) = 1/τ as the loss used it. The step of
convergence follows `evaluation/logit_scale.py`. The share of steps at the bound is that of logged steps.

`draw_logit_scales` is Fig. 3: the logit scale of runs over their steps, with the step at which each converged.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from equipoise.evaluation.logit_scale import converged_at, first_rest
from equipoise.io.figures import SERIES, SERIES_STYLES, captioned_figure, style
from equipoise.training.logging.metrics import METRICS_FILE, read_metrics
from equipoise.types import UserError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class LogitScaleCurve:
    run: str
    label: str  # the space and the start
    steps: list[int]
    scales: list[float]  # exp(t), one per step
    start: float  # exp(t) before the first step
    learnable: bool
    epoch_steps: int
    converged: int | None  # for good
    at_bound: float  # share of the logged steps
    first_rest: int | None = None  # where the paper's rule says that it converged
    unit_free: float | None = None  # the last t without the space's unit

    @property
    def final(self) -> float:
        return self.scales[-1]


def read_logit_scale(folder: Path) -> Sequence[Mapping[str, float]]:
    """The records of a run that hold a logit scale; raises UserError where none does."""
    path = folder / METRICS_FILE
    if not path.is_file():
        hint = "" if folder.is_dir() else " (there is no such folder)"
        raise UserError(f"no metrics in {folder}{hint}: a run's folder holds {METRICS_FILE}; give the folder of a run")
    records = [record for record in read_metrics(path) if "logit_scale" in record and "step" in record]
    if not records:
        raise UserError(f"{path} holds no logit scale yet; let the run log a step first")
    return records


def logit_scale_curve(
    run: str,
    label: str,
    records: Sequence[Mapping[str, float]],
    *,
    start: float,
    learnable: bool,
    epoch_steps: int,
    spread: float | None = None,
) -> LogitScaleCurve:
    """The curve of a run's records; `spread` is that of its space (`spaces/spread.py`)."""
    if epoch_steps < 1:
        raise UserError(f"an epoch has at least 1 step, not {epoch_steps}; correct --epoch-steps")
    steps, scales = [int(record["step"]) for record in records], [float(record["logit_scale"]) for record in records]
    return LogitScaleCurve(
        run,
        label,
        steps,
        scales,
        start,
        learnable,
        epoch_steps,
        converged_at(steps, scales, epoch_steps) if learnable else None,
        sum(bool(record.get("at_bound")) for record in records) / len(records),
        first_rest(steps, scales, epoch_steps) if learnable else None,
        math.log(scales[-1] * spread) if spread else None,
    )


def draw_logit_scales(curves: Sequence[LogitScaleCurve], bound: float | None, finding: str) -> Figure:
    """`bound` is the largest logit scale allowed, where all runs share one."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    with style():
        figure = captioned_figure("How the logit scale moved", finding, height=4.2)
        axes = figure.subplots()
        axes.set_yscale("log")
        for number, curve in enumerate(curves):
            colour, dashes = SERIES[number % len(SERIES)], SERIES_STYLES[number // len(SERIES) % len(SERIES_STYLES)]
            axes.plot([0, *curve.steps], [curve.scales[0], *curve.scales], color=colour, linestyle=dashes,
                      label=f"{curve.label} → {curve.final:.3g}")  # fmt: skip
            if curve.converged is not None:
                at = curve.scales[int(np.searchsorted(curve.steps, curve.converged))]
                axes.plot([curve.converged], [at], "o", color=colour, markersize=6)
        if bound is not None and any(curve.at_bound for curve in curves):
            axes.axhline(bound, color=SERIES[1], linewidth=1, linestyle=(0, (4, 3)))
            axes.annotate(f"bound {bound:g}", (1, bound), (-2, 3), xycoords=("axes fraction", "data"),
                          textcoords="offset points", ha="right", color=SERIES[1], fontsize=8.5)  # fmt: skip
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda step, _: f"{step:,.0f}"))
        axes.set_xlim(left=0)
        axes.set_xlabel("step (a dot: converged, within 2% from there on, for an epoch at least)")
        axes.set_ylabel("logit scale exp(t)")
        figure.legend(loc="outside right upper")
    return figure
