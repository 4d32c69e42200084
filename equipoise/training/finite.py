"""Numbers of a step that are NaN or infinite, found at once or, on a GPU, when something else is read from it.

    Immediate   reads loss and gradient norm in every step and raises before the weights are touched
    Deferred    writes down on the GPU which step was the first bad one; `settle` reads it and raises

To read a number is to wait for the GPU, which then waits for the next step's launches. Deferred never waits between two
calls of `settle`: the optimizer itself skips every step from the first bad one on (the fused kernel's `found_inf`), so
the weights stay those before it, as they do under Immediate. Whoever logs, evaluates or saves settles first.
"""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor

from equipoise.types import Loss


class NotFinite(ArithmeticError):
    """Raised when a number of a step is NaN or infinite, with the weights as they were before that step; the message
    says which. `step` is that step's number where it is not the one that is being made."""

    def __init__(self, message: str, step: int | None = None):
        super().__init__(message)
        self.step = step


class FiniteCheck(Protocol):
    def loss(self, loss: Loss) -> None:
        """Look at a loss, before its gradients are made."""

    def gradient(self, norm: Tensor, loss: Loss, step: int) -> None:
        """Look at the gradient's norm, before the optimizer's step."""

    def settle(self) -> None:
        """Raise NotFinite if any number was bad since the last call."""


class Immediate:
    def loss(self, loss: Loss) -> None:
        if not math.isfinite(loss.total.item()):
            raise NotFinite(_bad_loss(loss.total.item(), {name: term.item() for name, term in loss.terms.items()}))

    def gradient(self, norm: Tensor, loss: Loss, step: int) -> None:
        if not math.isfinite(float(norm)):
            raise NotFinite(_bad_gradient(float(norm)))

    def settle(self) -> None:
        """Nothing is left to raise."""


class Deferred:
    """Makes `optimizer` skip its steps from the first bad number on."""

    def __init__(self, optimizer: torch.optim.Optimizer, device: torch.device):
        self.found = torch.zeros((), device=device)  # 1 from the first bad number on
        self.numbers: Tensor | None = None  # step, norm, total and terms of the last step until a bad one, then of that
        self.names: tuple[str, ...] = ()
        optimizer.found_inf = self.found  # type: ignore[attr-defined]

    def loss(self, loss: Loss) -> None:
        """The gradient's norm comes later, and both are looked at then."""

    @torch.no_grad()
    def gradient(self, norm: Tensor, loss: Loss, step: int) -> None:
        if tuple(loss.terms) != self.names:
            self.settle()
            self.names, self.numbers = tuple(loss.terms), None
        made = torch.stack([x.detach().to(self.found) for x in (norm, loss.total, *loss.terms.values())])
        made = torch.cat([self.found.new_full((1,), step), made])  # a step is exact up to 2^24
        self.numbers = made if self.numbers is None else torch.where(self.found > 0, self.numbers, made)
        self.found.copy_(torch.maximum(self.found, made[1:3].isfinite().all().logical_not()))

    def settle(self) -> None:
        if self.numbers is None or not float(self.found):
            return
        step, norm, total, *terms = self.numbers.tolist()
        bad_loss = _bad_loss(total, dict(zip(self.names, terms, strict=True)))
        raise NotFinite(_bad_gradient(norm) if math.isfinite(total) else bad_loss, int(step))


def _bad_loss(total: float, terms: dict[str, float]) -> str:
    bad = [f"{name} = {value}" for name, value in terms.items() if not math.isfinite(value)]
    return f"the loss became {total} (terms: {', '.join(bad) or 'all finite before their sum'})"


def _bad_gradient(norm: float) -> str:
    return f"the gradient became {norm}"
