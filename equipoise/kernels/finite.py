"""Which input made a loss NaN or infinite, in a sentence.

Only a loss that is not finite is looked into, and only on the processor: to look at a number on a GPU is to wait for
it, in every step. There the loss comes back as it is, and whoever reads it (training does) sees that it is not finite.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from equipoise.types import UserError


class NotFinitePoints(UserError):
    """Some points, or a number beside them, are NaN or infinite."""


def require_finite(loss: Tensor, inputs: Iterator[tuple[str, Tensor]]) -> Tensor:
    """The loss; a sentence instead, if it is not finite because an input is not."""
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
