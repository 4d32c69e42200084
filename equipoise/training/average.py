"""A moving average of the weights, which often evaluates better than the last ones.

Polyak & Juditsky 1992, with exponential weights and a short start so that early weights are soon forgotten:

    average ← d·average + (1 - d)·weights,   d = min(decay, (1 + k)/(10 + k)) at step k
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Average:
    def __init__(self, model: nn.Module, decay: float):
        self.decay = decay
        self.weights: dict[str, Tensor] = {name: t.detach().clone() for name, t in model.state_dict().items()}

    @torch.no_grad()
    def update(self, model: nn.Module, step: int) -> None:
        decay = min(self.decay, (1 + step) / (10 + step))
        for name, tensor in model.state_dict().items():
            if tensor.is_floating_point():
                self.weights[name].lerp_(tensor, 1 - decay)
            else:  # a counter of batch norm: there is no such thing as half a batch
                self.weights[name].copy_(tensor)

    @torch.no_grad()
    def load(self, weights: Mapping[str, Tensor]) -> None:
        for name, tensor in self.weights.items():
            tensor.copy_(weights[name])

    @contextmanager
    def applied_to(self, model: nn.Module) -> Iterator[None]:
        """The model wears the average for a while."""
        own = {name: t.detach().clone() for name, t in model.state_dict().items()}
        try:
            model.load_state_dict(self.weights)
            yield
        finally:
            model.load_state_dict(own)
