"""`equipoise lab temperature`: how did the logit scale of these runs move?"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from equipoise.analysis.logit_scale import LogitScaleCurve, draw_logit_scales, logit_scale_curve, read_logit_scale
from equipoise.analysis.report import AnalysisReport
from equipoise.config import Loaded, load_stored
from equipoise.data.sampling import EpochSampler
from equipoise.evaluation.metrics import percent
from equipoise.models.folder import CONFIG
from equipoise.types import UserError


def follow_logit_scale(folders: Sequence[Path], epoch_steps: int | None) -> AnalysisReport:
    """The curves of runs; an epoch is as long as each run's data says, or `epoch_steps`."""
    read = [(folder, read_logit_scale(folder), _settings(folder)) for folder in folders]
    curves = _distinct_labels([_curve(folder, records, loaded, epoch_steps) for folder, records, loaded in read])
    bounds = {loaded.run.temperature.within(loaded.run.space).max_scale for _, _, loaded in read}
    conclusion = " ".join(_about(curve) for curve in curves)
    figure = draw_logit_scales(curves, bounds.pop() if len(bounds) == 1 else None, conclusion)
    numbers = {"runs": [{**asdict(curve), "final": curve.final} for curve in curves]}
    return AnalysisReport("temperature", conclusion, numbers, figure)


def _settings(folder: Path) -> Loaded:
    if not (folder / CONFIG).is_file():
        raise UserError(f"{folder} has no {CONFIG}, so its space and its start are not known; give the folder of a run")
    return load_stored(folder / CONFIG)


def _curve(
    folder: Path, records: Sequence[Mapping[str, float]], loaded: Loaded, epoch_steps: int | None
) -> LogitScaleCurve:
    temperature = loaded.run.temperature.within(loaded.run.space)
    start = min(math.exp(temperature.start), temperature.max_scale)
    label = f"{_space(loaded.table['space'])} from {start:.3g}"
    steps = epoch_steps if epoch_steps is not None else _epoch(folder, loaded)
    return logit_scale_curve(
        str(folder), label, records, start=start, learnable=temperature.learnable, epoch_steps=steps,
        spread=loaded.run.space.spread,
    )  # fmt: skip


def _epoch(folder: Path, loaded: Loaded) -> int:
    run = loaded.run
    try:
        return EpochSampler(len(run.data.build("train")), run.training.batch_size, run.seed).batches_per_epoch
    except (UserError, OSError) as error:
        raise UserError(f"{folder}: how long an epoch was cannot be told ({error}); give --epoch-steps") from error


def _space(table: Mapping[str, Any]) -> str:
    """The space's name, with what sets it apart from others of that name."""
    further = [str(value) for name, value in table.items() if name not in {"name", "dim"}]
    return f"{table['name']}({', '.join(further)})" if further else str(table["name"])


def _distinct_labels(curves: list[LogitScaleCurve]) -> list[LogitScaleCurve]:
    """Runs of the same space and start get their folder's name as well."""
    often = Counter(curve.label for curve in curves)
    return [
        replace(curve, label=f"{curve.label} ({Path(curve.run).name})") if often[curve.label] > 1 else curve
        for curve in curves
    ]


def _about(curve: LogitScaleCurve) -> str:
    bound = f", {percent(curve.at_bound)} of its steps at the bound" if curve.at_bound else ""
    final = f"{curve.final:.3g}" + ("" if curve.unit_free is None else f" (unit-free t {curve.unit_free:.2f})")
    if not curve.learnable:
        return f"{curve.label}: fixed at {final}{bound}."
    settled = "not converged" if curve.converged is None else f"converged at step {curve.converged:,}"
    return f"{curve.label}: {final} in the end, {settled}{bound}."
