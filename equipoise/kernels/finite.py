"""UserError that names the input which made a loss NaN or infinite.

Only a loss that is not finite is examined, and only on the CPU: to look at a number on a GPU is to wait for it, in
every step. There the loss is returned as it is, and whoever reads it (training does) sees that it is not finite.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from equipoise.types import UserError


class NotFinitePoints(UserError):
    """Points, log_scale or bias that are NaN or infinite."""


def require_finite(loss: Tensor, inputs: Iterator[tuple[str, Tensor]]) -> Tensor:
    """The loss; raises NotFinitePoints if it is not finite because an input is not."""
    if loss.device.type != "cpu" or bool(loss.detach().isfinite().all()):
        return loss
    for name, tensor in inputs:
        bad = tensor.detach().isfinite().logical_not()
        if bad.ndim == 0 and bad:
            raise NotFinitePoints(f"{name} is {float(tensor.detach())}, so there is no loss; give a finite number")
        if bad.any():
            row = int(bad.flatten(1).any(1).nonzero()[0])
            raise NotFinitePoints(
                f"{name} have a number that is not finite, first in row {row}, so there is no loss; look for NaN or "
                "infinity in what made these points"
            )
    return loss
