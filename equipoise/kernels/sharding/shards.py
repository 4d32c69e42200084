"""A batch in shards, one per rank, in the order of ranks. The shards need not be equal."""

from __future__ import annotations

from itertools import accumulate
from typing import Self

import torch
import torch.distributed as dist
from torch import Tensor

from equipoise.kernels.sharding.columns import Columns


class ShardedColumns(Columns):
    """Columns of which every rank has a shard, as it has of the rows."""

    def __init__(self, rank: int, sizes: tuple[int, ...]):
        self.rank, self.sizes = rank, sizes
        self.starts = (0, *accumulate(sizes))[:-1]
        self.world, samples = len(sizes), sum(sizes)
        self.shape, self.first_row = (samples, samples), self.starts[rank]
        self.share, self.grad_factor = sizes[rank] / samples, self.world

    def fresh(self) -> Self:
        """The same shards for another contrast, without what was gathered for this one."""
        return type(self)(self.rank, self.sizes)

    def all_reduce(self, tensor: Tensor) -> Tensor:
        dist.all_reduce(tensor)
        return tensor

    def gather(self, mine: Tensor) -> Tensor:
        """[n, ...] of this rank's samples -> [N, ...] of all of them; no gradients."""
        shards, work = self.gather_async(mine)
        work.wait()
        return torch.cat([shard[:size] for shard, size in zip(shards, self.sizes, strict=True)])

    def gather_async(self, mine: Tensor) -> tuple[list[Tensor], dist.Work]:
        """Every rank's tensor, once the work is done; each is as long as the longest."""
        longest = max(self.sizes)
        mine = mine.detach()
        if len(mine) < longest:
            mine = torch.cat([mine, mine.new_zeros(longest - len(mine), *mine.shape[1:])])
        shards = [torch.empty_like(mine, memory_format=torch.contiguous_format) for _ in self.sizes]
        return shards, dist.all_gather(shards, mine.contiguous(), async_op=True)
