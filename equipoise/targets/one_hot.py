"""One-hot targets: pair i matches itself and nothing else, as CLIP assumes.

Radford et al. 2021, Fig. 3 (`labels = np.arange(n)`).

    target[i, j] = 1 if i = j else 0, in both directions
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from equipoise.targets.target import HardTarget, Scores, TargetBlock


@dataclass(frozen=True)
class OneHot(HardTarget):
    cites: ClassVar[tuple[str, ...]] = ("radford2021clip",)
    divisible: ClassVar[bool] = True

    def positive(self, rows: range, cols: range, device: torch.device) -> Tensor | None:
        if rows.start >= cols.stop or cols.start >= rows.stop:
            return None
        row_numbers = torch.arange(rows.start, rows.stop, device=device)
        return row_numbers[:, None] == torch.arange(cols.start, cols.stop, device=device)

    def counts(self, numbers: range, like: Tensor) -> Tensor:
        return like.new_ones(len(numbers))

    def block(self, rows: range, cols: range, like: Tensor, scores: Scores | None = None) -> TargetBlock:
        positive = self.positive(rows, cols, like.device)
        eye = None if positive is None else positive.to(like.dtype)
        return TargetBlock(eye, eye)
