"""Columns that pass round a ring of ranks: memory of two shards, whatever the number of ranks.

    step k     rank r has the columns of rank r - k, and compares them with its rows;
               meanwhile those of rank r - k - 1 are on their way to it from its left neighbour
    after it   what the rows made of the columns is merged with what came along from the ranks before, and goes on to
               the right neighbour; after the last step that is the rank whose columns they are

Every rank sends a shard of the points `world` - 1 times and results `world` times: as much as to gather and to sum
them, but no rank ever holds them all. The loss of SigLIP passes points round in the same way (Zhai et al. 2023, §3.3).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch.distributed as dist
from torch import Tensor

from equipoise.forms.form import Reduction
from equipoise.kernels.sharding.columns import OnBlock
from equipoise.kernels.sharding.shards import ShardedColumns


class Ring(ShardedColumns):
    def for_each_shard(
        self, points: Sequence[Tensor], numbers: Sequence[Tensor], on_block: OnBlock, reductions: Sequence[Reduction]
    ) -> list[Tensor]:
        shard = [tensor.detach().contiguous() for tensor in (*points, *numbers)]
        reduced: _InFlight | None = None
        for step in range(self.world):
            owner, next_owner = (self.rank - step) % self.world, (self.rank - step - 1) % self.world
            incoming = self._send_right(shard, next_owner) if step < self.world - 1 else None
            made = on_block(self.starts[owner], shard)
            if reduced is not None:
                pairs = zip(reductions, reduced.wait(), made, strict=True)
                made = [reduction.merge(before, new) for reduction, before, new in pairs]
            reduced = self._send_right(made, next_owner)
            shard = incoming.wait() if incoming is not None else []
        assert reduced is not None
        return reduced.wait()

    def _send_right(self, tensors: list[Tensor], owner: int) -> _InFlight:
        """Send tensors to the right neighbour, and receive from the left those of the columns of `owner`."""
        right, left = (self.rank + 1) % self.world, (self.rank - 1) % self.world
        received = [tensor.new_empty(self.sizes[owner], *tensor.shape[1:]) for tensor in tensors]
        sends = [dist.P2POp(dist.isend, tensor, right) for tensor in tensors]
        receives = [dist.P2POp(dist.irecv, tensor, left) for tensor in received]
        return _InFlight(tensors, received, dist.batch_isend_irecv([*sends, *receives]) if tensors else [])


class _InFlight:
    """Tensors on their way between ranks: those sent must live until they have left."""

    def __init__(self, sent: list[Tensor], received: list[Tensor], work: list[dist.Work]):
        self.sent, self.received, self.work = sent, received, work

    def wait(self) -> list[Tensor]:
        for work in self.work:
            work.wait()
        self.sent, self.work = [], []
        return self.received
