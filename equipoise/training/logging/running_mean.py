"""The mean of the last values of a number that jumps from step to step, for people to watch."""

from __future__ import annotations

from collections import deque

import torch
from torch import Tensor

WINDOW = 50  # steps


class RunningMean:
    """Holds values where they are, so that a GPU is waited for only when the mean is asked for."""

    def __init__(self, window: int = WINDOW):
        self._values: deque[Tensor] = deque(maxlen=window)

    def add(self, value: Tensor) -> None:
        self._values.append(value.detach().float().clone())

    def mean(self) -> float:
        """The mean of the last values; at least one must be there."""
        return torch.stack(tuple(self._values)).mean().item()
