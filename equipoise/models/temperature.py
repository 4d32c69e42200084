"""Temperature: how far similarities are stretched. Stored as CLIP does, as t = log(scale); logits are exp(t)·s(u, v).

Radford et al. 2021, §2.5: t starts at ln(1/0.07), is learned, and exp(t) is kept below 100.

A bound must let the gradient back in: clamping inside the loss gives zero gradient above the bound, so a temperature
that starts or lands there stays for ever. Here the bound is applied straight through (the value is bounded, the
gradient passes), and after every optimiser step the parameter itself is brought back to the bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from equipoise.types import UserError


@dataclass(frozen=True)
class Temperature:
    cites: ClassVar[tuple[str, ...]] = ("radford2021clip",)

    init: float = math.log(1 / 0.07)  # t, not exp(t)
    learnable: bool = True
    max_scale: float = 100.0  # upper bound on exp(t)

    def __post_init__(self) -> None:
        if self.max_scale <= 0:
            raise UserError(f"max_scale must be positive, not {self.max_scale}")

    @property
    def max_log_scale(self) -> float:
        return math.log(self.max_scale)

    def parameter(self) -> nn.Parameter:
        return nn.Parameter(torch.tensor(self.init), requires_grad=self.learnable)

    def bounded(self, log_scale: Tensor) -> Tensor:
        """t, at most the bound, with the gradient of t itself."""
        return log_scale + (log_scale.clamp(max=self.max_log_scale) - log_scale).detach()

    @torch.no_grad()
    def bring_back(self, log_scale: Tensor) -> None:
        """After an optimiser step: a parameter beyond the bound returns to it, in place."""
        log_scale.clamp_(max=self.max_log_scale)

    def at_bound(self, log_scale: Tensor) -> bool:
        return bool(log_scale.detach() >= self.max_log_scale - 1e-6)
