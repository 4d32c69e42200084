"""The order of samples: a pure function of seed and position, so that a run can start again anywhere."""

from __future__ import annotations

import torch

from equipoise.data.rng import generator
from equipoise.types import UserError


class EpochSampler:
    """Which samples make up batch `position` (from 0) when each epoch visits every sample once, shuffled.

    The samples left over at the end of an epoch, fewer than a batch, sit that epoch out.
    """

    def __init__(self, samples: int, batch_size: int, seed: int):
        if batch_size > samples:
            raise UserError(f"batch_size {batch_size} is larger than the {samples} training samples; use a smaller one")
        self.samples, self.batch_size, self.seed = samples, batch_size, seed
        self.batches_per_epoch = samples // batch_size
        self._number = torch.int32 if samples <= torch.iinfo(torch.int32).max else torch.int64
        self._epoch, self._shuffled = -1, torch.empty(0, dtype=self._number)

    def batch(self, position: int) -> list[int]:
        epoch, place = divmod(position, self.batches_per_epoch)
        if epoch != self._epoch:
            order = generator(self.seed, "order", epoch)  # draws the same whatever the type of the numbers
            self._epoch, self._shuffled = epoch, torch.randperm(self.samples, generator=order, dtype=self._number)
        return self._shuffled[place * self.batch_size : (place + 1) * self.batch_size].tolist()
