"""One optimiser step: embed, compare, differentiate, clip, update."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn

from equipoise.models.model import Model
from equipoise.objectives import Objective
from equipoise.training.optimiser import learning_rate, make_optimiser
from equipoise.training.settings import Training
from equipoise.types import Batch, Loss


class NotFinite(ArithmeticError):
    """A number of the step is NaN or infinite; the message says which. The weights were not touched."""


@dataclass(frozen=True)
class StepFacts:
    loss: Loss
    learning_rate: float
    grad_norm: float


class Step:
    def __init__(self, model: Model, objective: Objective, settings: Training, device: torch.device):
        self.model, self.objective, self.settings = model, objective, settings
        self.autocast = settings.autocast(device)
        self.optimiser = make_optimiser(model, settings)
        self.forward = torch.compile(model) if settings.compile else model
        for tower in (model.image_encoder, model.text_encoder):
            tower.transformer.recompute = settings.recompute_activations

    def __call__(self, batch: Batch, number: int) -> StepFacts:
        rate = learning_rate(number - 1, self.settings)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        with self.autocast:
            embeddings = self.forward(batch, self.objective.needs)
        loss = self.objective(embeddings, batch, log_scale=self.model.log_scale, space=self.model.space)
        _require_finite(loss)
        self.optimiser.zero_grad(set_to_none=True)
        loss.total.backward()
        grad_norm = float(nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip_norm or math.inf))
        if not math.isfinite(grad_norm):
            raise NotFinite(f"the gradient became {grad_norm}")
        self.optimiser.step()
        self.model.temperature.bring_back(self.model.logit_scale)
        return StepFacts(loss, rate, grad_norm)


def _require_finite(loss: Loss) -> None:
    total = loss.total.item()
    if math.isfinite(total):
        return
    values = {name: value.item() for name, value in loss.terms.items()}
    bad = [f"{name} = {value}" for name, value in values.items() if not math.isfinite(value)]
    raise NotFinite(f"the loss became {total} (terms: {', '.join(bad) or 'all finite before their sum'})")
