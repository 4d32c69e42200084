"""A moving average of the weights, which often evaluates better than the last ones.

Polyak & Juditsky 1992, with exponential weights and a short start so that early weights are soon forgotten:

    average ← d·average + (1 - d)·weights,   d = min(decay, (1 + k)/(10 + k)) at step k

It may also teach: an objective that needs the roles `momentum_...` is given the points it makes of each batch, in
evaluation mode and without gradients (He et al. 2020, MoCo, Eq. 2; Li et al. 2021, ALBEF, §3.3).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from equipoise.training.distributed.dtensors import copy_local, local_part


class EMA:
    """The moving average of a model's weights; every rank averages what it holds of them."""

    def __init__(self, model: nn.Module, decay: float):
        self.decay = decay
        self.weights = _copied(model)

    @torch.no_grad()
    def update(self, model: nn.Module, step: int) -> None:
        """Average in the weights after `step`."""
        decay = min(self.decay, (1 + step) / (10 + step))
        for name, tensor in model.state_dict().items():
            average, new = local_part(self.weights[name]), local_part(tensor)
            if tensor.is_floating_point():
                average.lerp_(new, 1 - decay)
            else:  # a counter of batch norm: there is no such thing as half a batch
                average.copy_(new)

    def put_into(self, model: nn.Module) -> None:
        """Overwrite the model's weights with the average."""
        copy_local(model.state_dict(), self.weights)

    @contextmanager
    def applied_to(self, model: nn.Module) -> Iterator[None]:
        """Put the average into the model, and its own weights back at the end."""
        own = _copied(model)
        try:
            self.put_into(model)
            yield
        finally:
            copy_local(model.state_dict(), own)


def _copied(model: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
