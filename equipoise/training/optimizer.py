"""AdamW with decay groups, and the cosine schedule with linear warm-up.

Loshchilov & Hutter 2019, "Decoupled Weight Decay Regularization"; 2017, "SGDR", Eq. 5 without restarts.

    rate(k) = peak · (k+1)/warm-up                                   while k < warm-up
            = final + (peak - final) · ½(1 + cos(π (k - warm-up)/(steps - warm-up)))   after

A run that probes first (`probe_phase.py`) has two such schedules, one after the other.
"""

from __future__ import annotations

import math

import torch
from torch import nn

from equipoise.models.model import Model
from equipoise.training.settings import Training

LOGIT_SCALE = "logit_scale"
# vectors that place things rather than map them; decay would pull them together
UNDECAYED = ("class_token", "positions", "position_bias.hidden.weight", "position_bias.to_heads.weight", LOGIT_SCALE)


def make_optimizer(model: nn.Module, settings: Training) -> torch.optim.AdamW:
    """AdamW with weight decay on matrices of linear maps, convolutions and embeddings, and none on the rest. A group's
    `speed` multiplies its learning rate."""
    trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    decayed = [p for name, p in trained if is_decayed(name, p)]
    scale = [p for name, p in trained if name == LOGIT_SCALE]
    free = [p for name, p in trained if not is_decayed(name, p) and name != LOGIT_SCALE]
    groups = [
        {"params": decayed, "weight_decay": settings.weight_decay, "speed": 1.0},
        {"params": free, "weight_decay": 0.0, "speed": 1.0},
    ]
    if isinstance(model, Model) and scale:
        groups.append({"params": scale, "weight_decay": 0.0, "speed": model.temperature.speed})
    on_gpu = trained[0][1].is_cuda
    return torch.optim.AdamW(
        groups, lr=settings.learning_rate, betas=settings.betas, eps=settings.epsilon, fused=True if on_gpu else None
    )


def is_decayed(name: str, parameter: nn.Parameter) -> bool:
    return parameter.ndim >= 2 and not name.endswith(UNDECAYED)


def learning_rate(step: int, settings: Training) -> float:
    """The learning rate of `step`, which counts from 0."""
    probing = settings.probe.steps_of(settings.steps)
    if step < probing:
        return _rate(step, probing, settings.probe.learning_rate, settings)
    return _rate(step - probing, settings.steps - probing, settings.learning_rate, settings)


def _rate(step: int, steps: int, peak: float, settings: Training) -> float:
    warmup = min(settings.warmup_steps, steps)
    if step < warmup:
        return peak * (step + 1) / warmup
    progress = (step - warmup) / max(1, steps - warmup)
    falling = 0.5 * (1 + math.cos(math.pi * progress))
    return settings.final_learning_rate + (peak - settings.final_learning_rate) * falling
