"""One-hot targets: pair i matches itself and nothing else, as CLIP assumes.

Radford et al. 2021, Fig. 3 (`labels = np.arange(n)`).

    target[i, j] = 1 if i = j else 0, in both directions
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from equipoise.targets.target import Target, TargetBlock


@dataclass(frozen=True)
class OneHot(Target):
    cites: ClassVar[tuple[str, ...]] = ("radford2021clip",)

    def block(self, rows: range, cols: range, like: Tensor) -> TargetBlock:
        if rows.start >= cols.stop or cols.start >= rows.stop:
            return TargetBlock(None, None)
        row_numbers = torch.arange(rows.start, rows.stop, device=like.device)
        col_numbers = torch.arange(cols.start, cols.stop, device=like.device)
        eye = (row_numbers[:, None] == col_numbers).to(like.dtype)
        return TargetBlock(eye, eye)
