"""Hardness (`spaces/hard_negatives.py`) of a sharded batch: every row among the columns of all ranks."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from equipoise.kernels.sharding.shards import ShardedColumns
from equipoise.spaces import Hardness, Space, hardness


@torch.no_grad()
def sharded_hardness(space: Space, shards: ShardedColumns, rows: Tensor, cols: Tensor) -> Hardness:
    """The means over the rows of all ranks."""
    positive = space.pairwise(rows, cols)
    closest, above = torch.full_like(positive, -torch.inf), torch.zeros_like(positive, dtype=torch.double)

    def on_block(start: int, shard: Sequence[Tensor]) -> list[Tensor]:
        matched = start == shards.first_row
        found = hardness(rows, shard[0], space=space, positive=positive, matched=matched)
        torch.maximum(closest, found.closest, out=closest)
        above.add_(found.above, alpha=max(1, len(shard[0]) - matched))
        return []

    shards.fresh().for_each_shard((cols,), (), on_block, ())
    samples = shards.shape[0]
    sums = torch.stack([positive.double().sum(), closest.double().sum(), above.sum() / max(1, samples - 1)])
    return Hardness(*(shards.all_reduce(sums) / samples))
