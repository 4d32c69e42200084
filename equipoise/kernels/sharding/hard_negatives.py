"""How hard a batch is that lies in parts (`spaces/hard_negatives.py`): every row among the columns of all ranks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from equipoise.kernels.sharding.shards import ShardedColumns
from equipoise.spaces import Hardness, Space, hardness


@torch.no_grad()
def hardness_in_parts(space: Space, parts: ShardedColumns, rows: Tensor, cols: Tensor) -> Hardness:
    """The means over the rows of all ranks."""
    positive = space.pairwise(rows, cols)
    closest, above = torch.full_like(positive, -torch.inf), torch.zeros_like(positive, dtype=torch.double)

    def visit(start: int, come: Sequence[Tensor]) -> list[Tensor]:
        here = start == parts.first_row
        found = hardness(rows, come[0], space=space, positive=positive, matched=here)
        torch.maximum(closest, found.closest, out=closest)
        above.add_(found.above, alpha=max(1, len(come[0]) - here))
        return []

    parts.again().round((cols,), (), visit, ())
    samples = parts.shape[0]
    sums = torch.stack([positive.double().sum(), closest.double().sum(), above.sum() / max(1, samples - 1)])
    return Hardness(*(parts.total(sums) / samples))
