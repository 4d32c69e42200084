"""The model that a run starts from. A copy goes into the run's folder, so that resuming does not need the original:

start/        the model before the first step, as a model folder of its own
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from equipoise.config import Loaded, Run, dump, load_settings
from equipoise.interop import is_foreign
from equipoise.io.json_files import kind_of, read_json_table
from equipoise.models.folder import METRICS, model_folder, save_model, step_folders
from equipoise.models.model import Model
from equipoise.models.warm_start import load_start_weights
from equipoise.types import UserError
from equipoise.workflows.load import load_with_settings

START = "start"
FIXED = ("space", "readout", "tokens", "preprocess.size", "preprocess.mean", "preprocess.std")


@dataclass(frozen=True)
class Start:
    path: str  # as it was named
    model: Model
    table: dict[str, Any]  # its settings, resolved
    metrics: Mapping[str, float]  # measured when it was trained; empty for a model of another library

    def begin(self, model: Model, run: Run) -> None:
        """Give the run's model the weights of this one."""
        self._require_same(run)
        load_start_weights(model, self.model.state_dict(), self.path)

    def save(self, folder: Path) -> None:
        save_model(self.model, folder / START, dump(self.table), self.metrics)

    def trained_on(self) -> Run | None:
        """The run that trained it; None for a model of another library, whose settings name no data."""
        return load_settings(self.table, self.path).run if "step" in self.metrics else None

    def _require_same(self, run: Run) -> None:
        """Raises UserError where a setting differs that changes the model but not the shapes of its weights."""
        mine = load_settings(self.table, self.path).run
        for name in FIXED:
            part, _, key = name.partition(".")
            old, new = (getattr(getattr(one, part), key) if key else getattr(one, part) for one in (mine, run))
            if old != new:
                raise UserError(f"{name} is not that of {self.path}: {old} there, {new} here; leave it as it is")


def load_start(path: str | Path) -> Start:
    """The start model from a model folder, or from the files of another library."""
    model, loaded = load_with_settings(path, torch.device("cpu"))
    metrics = {} if is_foreign(path) else _metrics(model_folder(Path(path)) / METRICS)
    return Start(str(path), model, loaded.table, metrics)


def start_of(loaded: Loaded, folder: Path) -> Start | None:
    """The start model of the run in `folder`: the copy in it, or for a new run the model that its settings name."""
    named = loaded.run.finetuning.start
    if not named:
        return None
    if (folder / START).is_dir():
        return load_start(folder / START)
    if step_folders(folder):
        raise UserError(
            f"{folder / START} is missing, the model that this run started from; bring it back, or start a new run"
        )
    return load_start(named)


@torch.no_grad()
def set_temperature(model: Model, tau: float) -> None:
    """Set the temperature to tau, exp(t) = 1/tau; 0 leaves it as it is."""
    if not tau:
        return
    t = -math.log(tau)
    if t > model.temperature.max_log_scale + 1e-6:
        raise UserError(
            f"finetuning.tau = {tau:g} is a scale of {math.exp(t):g}, above the model's temperature.max_scale = "
            f"{model.temperature.max_scale:g}; choose a larger tau, or raise that"
        )
    model.logit_scale.fill_(t)


def _metrics(path: Path) -> dict[str, float]:
    metrics = read_json_table(path)
    for name, value in metrics.items():
        if not isinstance(value, int | float):
            raise UserError(f"cannot read {path}: {name} is {kind_of(value)}, not a number")
    return metrics
