"""For test_want_of_memory.py: an objective that no machine has the memory for, unless it is computed in tiles."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from equipoise.objectives import CLIP
from equipoise.types import Batch

PEBIBYTE = 2**50


@dataclass(frozen=True)
class Hungry(CLIP):
    def prepared(self, batch: Batch) -> Batch:
        if batch.moment.step > 2 and self.impl != "tiled":
            torch.empty(PEBIBYTE, dtype=torch.uint8)
        return super().prepared(batch)
