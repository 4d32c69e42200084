"""Checkpoints of a run: `checkpoints/last` and `checkpoints/best`, each a whole model folder."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from equipoise.models.folder import save_model
from equipoise.models.model import Model
from equipoise.types import UserError


class Checkpoints:
    def __init__(self, folder: Path, config: str, best_metric: str):
        self.folder, self.config, self.best_metric = folder / "checkpoints", config, best_metric
        self.best_value = -math.inf
        self.last_step: int | None = None

    def save(self, model: Model, step: int, metrics: Mapping[str, float], weights: Mapping[str, Tensor] | None) -> None:
        save_model(model, self.folder / "last", self.config, {"step": step, **metrics}, weights)
        self.last_step = step

    def offer(self, model: Model, step: int, metrics: Mapping[str, float]) -> bool:
        """Keep these weights as the best if their metric is higher than any before."""
        if self.best_metric not in metrics:
            known = ", ".join(metrics)
            raise UserError(f'training.best = "{self.best_metric}" is not among the metrics measured: {known}')
        if not metrics[self.best_metric] > self.best_value:  # written so that NaN is never the best
            return False
        self.best_value = metrics[self.best_metric]
        save_model(model, self.folder / "best", self.config, {"step": step, **metrics})
        return True

    def last(self) -> str:
        """Where the last good weights are, for a sentence."""
        if self.last_step is None:
            return "no checkpoint had been written yet"
        return f"the last good checkpoint, of step {self.last_step}, is in {self.folder / 'last'}"
