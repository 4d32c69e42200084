"""The logit scale: the factor exp(t) on similarities, stored as CLIP does, as t; logits are exp(t)·s(u, v), and the
temperature is τ = 1/exp(t).

Radford et al. 2021, §2.5: t starts at ln(1/0.07), is learned, and exp(t) is kept below 100. Sun & Li 2024, §4.2: on a
product of m spheres similarities reach m times as far, so exp(t) is kept below 100/m (`per_sphere`; their Table 5
says 3.95 for m = 16 instead of 6.25, which is `max_scale = 3.95`).

A bound must let the gradient back in: clamping inside the loss gives zero gradient above the bound, so a logit scale
that starts or lands there stays for ever. Here the bound is applied straight through (the value is bounded, the
gradient passes), and after every optimizer step the parameter itself is clamped to the bound.

Adam moves t by no more than the learning rate per step. In a run of some hundred steps that may be too little to get
from a start to anywhere: `speed` multiplies the learning rate of t alone. Weight decay never touches it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from equipoise.settings.bounds import bounded
from equipoise.spaces import Space
from equipoise.types import UserError


@dataclass(frozen=True)
class LogitScale:
    init: float = bounded(math.log(1 / 0.07), -100, 100)  # t, not exp(t)
    learnable: bool = True
    max_scale: float = bounded(100.0, 0, 1e9)  # upper bound on exp(t)
    per_sphere: bool = False  # divides the bound by the number of spheres of a product
    speed: float = bounded(1.0, 0, 1e6)  # multiplies the learning rate of t

    def __post_init__(self) -> None:
        for name in ("max_scale", "speed"):
            if not 0 < getattr(self, name) < math.inf:
                raise UserError(f"{name} must be positive, not {getattr(self, name)}")
        if not math.isfinite(self.init):
            raise UserError(f"init is {self.init}; give t, the logarithm of the first logit scale")

    @property
    def cites(self) -> tuple[str, ...]:
        return ("radford2021clip", *(("sun2024temperature",) if self.per_sphere else ()))

    def within(self, space: Space) -> LogitScale:
        """Copy whose bound is the one that holds in `space`."""
        return replace(self, max_scale=self.max_scale / space.factors, per_sphere=False) if self.per_sphere else self

    @property
    def max_log_scale(self) -> float:
        return math.log(self.max_scale)

    def parameter(self) -> nn.Parameter:
        return nn.Parameter(torch.tensor(self.init), requires_grad=self.learnable)

    def bounded(self, log_scale: Tensor) -> Tensor:
        """t clamped to the bound, straight through: its gradient is that of t itself."""
        return log_scale + (log_scale.clamp(max=self.max_log_scale) - log_scale).detach()

    @torch.no_grad()
    def clamp_(self, log_scale: Tensor) -> None:
        """Clamp t to the bound in place; called after every optimizer step."""
        log_scale.clamp_(max=self.max_log_scale)

    def at_bound(self, log_scale: Tensor) -> bool:
        return bool(log_scale.detach() >= self.max_log_scale - 1e-6)


Temperature = LogitScale  # the public name, `eq.Temperature`
