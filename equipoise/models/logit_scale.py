"""The logit scale: the factor exp(t) on similarities, stored as CLIP does, as t; logits are exp(t)·s(u, v), and the
temperature is τ = 1/exp(t).

Radford et al. 2021, §2.5: t starts at ln(1/0.07), is learned, and exp(t) is kept below 100. Sun & Li 2024, §4.2: on a
product of m spheres similarities reach m times as far, so exp(t) is kept below 100/m (`per_sphere`; their Table 5
says 3.95 for m = 16 instead of 6.25, which is `max_scale = 3.95`). Geodesic distances reach √m times as far, so their
bound is 100/√m.

Spaces have units: at one t the logits of random points spread m times as far on a product of m spheres as on a sphere
of as many dimensions. `init = "matched"` starts every space with logits that spread as CLIP's do at its start on the
sphere of the same dimension, and `unit_free` is t without the unit,

    exp(t)·spread(space) = 1/0.07 · spread(sphere)        unit_free(t) = t + ln spread(space)

A bound must let the gradient back in: clamping inside the loss gives zero gradient above the bound, so a logit scale
that starts or lands there stays for ever. Here the bound is applied straight through (the value is bounded, the
gradient passes), and after every optimizer step the parameter itself is clamped to the bound.

Adam moves t by no more than the learning rate per step. In a run of some hundred steps that may be too little to get
from a start to anywhere: `speed` multiplies the learning rate of t alone. Weight decay never touches it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn

from equipoise.settings.bounds import bounded
from equipoise.spaces import Space
from equipoise.types import UserError

CLIPS_START = math.log(1 / 0.07)
MATCHED = "matched"


@dataclass(frozen=True)
class LogitScale:
    init: float | Literal["matched"] = bounded(CLIPS_START, -100, 100)  # t, not exp(t); matched: by the space
    learnable: bool = True  # whether t is trained
    max_scale: float = bounded(100.0, 0, 1e9)  # upper bound on exp(t)
    per_sphere: bool = False  # divides the bound by the number of spheres of a product, geodesic: by its root
    speed: float = bounded(1.0, 0, 1e6)  # multiplies the learning rate of t

    def __post_init__(self) -> None:
        for name in ("max_scale", "speed"):
            if not 0 < getattr(self, name) < math.inf:
                raise UserError(f"{name} must be positive, not {getattr(self, name)}")
        if self.init != MATCHED and (isinstance(self.init, str) or not math.isfinite(self.init)):
            raise UserError(f'init is {self.init}; give t, the logarithm of the first logit scale, or "{MATCHED}"')

    @property
    def cites(self) -> tuple[str, ...]:
        return ("radford2021clip", *(("sun2024temperature",) if self.per_sphere else ()))

    def within(self, space: Space) -> LogitScale:
        """Copy whose bound and whose start are those that hold in `space`."""
        bound = self.max_scale / space.reach if self.per_sphere else self.max_scale
        start = matched_start(space) if self.init == MATCHED else self.init
        return replace(self, init=start, max_scale=bound, per_sphere=False)

    @property
    def start(self) -> float:
        """t at the start; raises UserError where that depends on a space, and `within` was not asked."""
        if isinstance(self.init, str):
            raise UserError(f"init is {self.init}, which depends on the space; ask temperature.within(space)")
        return self.init

    @property
    def max_log_scale(self) -> float:
        return math.log(self.max_scale)

    def parameter(self) -> nn.Parameter:
        return nn.Parameter(torch.tensor(self.start), requires_grad=self.learnable)

    def bounded(self, log_scale: Tensor) -> Tensor:
        """t clamped to the bound, straight through: its gradient is that of t itself."""
        return log_scale + (log_scale.clamp(max=self.max_log_scale) - log_scale).detach()

    @torch.no_grad()
    def clamp_(self, log_scale: Tensor) -> None:
        """Clamp t to the bound in place; called after every optimizer step."""
        log_scale.clamp_(max=self.max_log_scale)

    def at_bound(self, log_scale: Tensor) -> bool:
        return bool(log_scale.detach() >= self.max_log_scale - 1e-6)


def matched_start(space: Space) -> float:
    """t at which logits of random points spread as CLIP's do at its start on the sphere of the same dimension."""
    spread = space.start_spread
    if not spread:
        raise UserError(
            f"init is {MATCHED}, but points of the space {type(space).__name__} have no distribution to match the "
            "spread of; give t, the logarithm of the first logit scale"
        )
    return CLIPS_START - 0.5 * math.log(space.dim) - math.log(spread)


def unit_free(log_scale: float, space: Space) -> float | None:
    """t + ln spread: the logarithm of the standard deviation of random points' logits; None where a space has none."""
    return log_scale + math.log(space.spread) if space.spread else None


Temperature = LogitScale  # the public name, `eq.Temperature`
