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
        found = model.state_dict()
        named = [name for name, tensor in found.items() if tensor.is_floating_point()]
        averages, new = ([local_part(tensors[name]) for name in named] for tensors in (self.weights, found))
        torch._foreach_lerp_(averages, new, 1 - decay)  # a launch for all, as torch's own averages do
        # counters of batch norm: there is no such thing as half a batch
        counters = (name for name, tensor in found.items() if not tensor.is_floating_point())
        copy_local({name: self.weights[name] for name in counters}, found)

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
