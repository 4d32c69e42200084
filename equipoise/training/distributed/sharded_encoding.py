"""Encoding a data set on all ranks: each makes the points of its share, and every rank gets all of them.

Every rank calls the model equally often, with something even where its share is used up, for under FSDP2 all of them
take part in each call. The ranks agree between calls whether to go on.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from equipoise.kernels.sharding.gather import gather_rows
from equipoise.training.distributed.ranks import Ranks


class ShardedEncoder:
    """In the place of `models.encode_all.in_turn`. `between` is called before each part, by all ranks."""

    def __init__(self, ranks: Ranks, between: Callable[[], None] = lambda: None):
        self.ranks, self.between = ranks, between

    def __call__(self, total: int, size: int, encode: Callable[[range], Tensor]) -> Tensor:
        if not total:
            return encode(range(0))
        each = -(-total // self.ranks.world)
        mine = range(total)[self.ranks.rank * each : (self.ranks.rank + 1) * each]
        parts = []
        for start in range(0, each, size):
            self.between()
            piece = mine[start : start + size]
            parts.append(encode(piece or range(1))[: len(piece)])
        points = torch.cat(parts)
        padding = points.new_zeros(each - len(points), *points.shape[1:])
        return gather_rows(torch.cat([points, padding]))[:total]
