"""A learned logit scale for a term of an objective that does not share the model's.

Oh et al. 2023, "Geodesic Multi-Modal Mixup for Robust Fine-Tuning", App. B, Algorithm 1: "t1, t2: trainable".

    role m2_log_scale [N, 1]: t₂ of every sample, the same number; logits are exp(t₂)·s

One row per sample, as all roles are: so its gradient is gathered, and cut into micro-batches, as theirs are. exp(t₂) is
kept at or below 100 as the model's own is (`models/logit_scale.py`), and the gradient passes the bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from equipoise.heads.head import Head, Sizes, TowerOutputs
from equipoise.types import UserError

MAX_SCALE = 100.0


class LogitScaleHead(Head):
    roles: ClassVar[tuple[str, ...]] = ("m2_log_scale",)

    @dataclass(frozen=True)
    class Config:
        scale: float = 1 / 0.07  # exp(t₂) at the start

        def __post_init__(self) -> None:
            if not 0 < self.scale <= MAX_SCALE:
                raise UserError(f"scale must be above 0 and at most {MAX_SCALE:g}, not {self.scale}")

        def build(self, sizes: Sizes) -> LogitScaleHead:
            return LogitScaleHead(self)

    def __init__(self, config: Config):
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor([math.log(config.scale)]))  # [1]: FSDP shards the first axis

    def forward(self, outputs: TowerOutputs) -> dict[str, Tensor]:
        t = self.log_scale + (self.log_scale.clamp(max=math.log(MAX_SCALE)) - self.log_scale).detach()
        return {self.roles[0]: t.expand(len(outputs.points("image")), 1)}

    @torch.no_grad()
    def clamp_(self) -> None:
        self.log_scale.clamp_(max=math.log(MAX_SCALE))
