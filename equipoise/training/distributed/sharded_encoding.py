"""Encoding a data set on all ranks: each encodes its share, and every rank gets the points of all.

Every rank calls the model equally often, with some input even where its share is used up, because under FSDP2 all of
them take part in each call. The ranks agree between calls whether to go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from equipoise.io.progress import quiet
from equipoise.kernels.sharding.gather import gather_rows
from equipoise.models.model import Model
from equipoise.training.distributed.ranks import Ranks

Between = Callable[[], None]  # called by all ranks before each chunk


@contextmanager
def sharded_encoding(model: Model, ranks: Ranks, between: Between = lambda: None) -> Iterator[None]:
    """Let all ranks share the work whenever `model` encodes a data set; evaluation needs to know nothing of it."""
    former = model.encode_all
    if ranks.world > 1:
        model.encode_all = ShardedEncoder(ranks, between)
    try:
        with quiet(ranks.world > 1):  # each would show a bar of its own
            yield
    finally:
        model.encode_all = former


class ShardedEncoder:
    """As `models.encode_chunks.encode_in_chunks`, by several ranks."""

    def __init__(self, ranks: Ranks, between: Between = lambda: None):
        self.ranks, self.between = ranks, between

    def __call__(self, total: int, size: int, encode: Callable[[range], Tensor]) -> Tensor:
        if not total:
            return encode(range(0))
        each = -(-total // self.ranks.world)
        mine = range(total)[self.ranks.rank * each : (self.ranks.rank + 1) * each]
        chunks = []
        for start in range(0, each, size):
            self.between()
            chunk = mine[start : start + size]
            chunks.append(encode(chunk or range(1))[: len(chunk)])
        points = torch.cat(chunks)
        padding = points.new_zeros(each - len(points), *points.shape[1:])
        return gather_rows(torch.cat([points, padding]))[:total]
