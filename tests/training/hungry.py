"""An objective that needs more memory than any machine has unless it is computed in tiles, for test_memory.py."""

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
