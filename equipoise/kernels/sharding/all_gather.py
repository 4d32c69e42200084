"""Columns of all ranks on every rank, compared with its own rows alone: few and large messages.

Points are gathered once and kept until the gradients are done, N × d numbers; while they are on their way the rows are
compared with this rank's own columns. What the rows made of a shard's columns is reduced to the rank that owns them,
one shard's reduction on its way while the next is computed.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from equipoise.forms.form import LOG_SUM_EXP, Reduction
from equipoise.kernels.sharding.columns import OnBlock
from equipoise.kernels.sharding.shards import ShardedColumns


class AllGather(ShardedColumns):
    def __init__(self, rank: int, sizes: tuple[int, ...]):
        super().__init__(rank, sizes)
        self._points: list[list[Tensor]] | None = None  # of every rank

    def for_each_shard(
        self, points: Sequence[Tensor], numbers: Sequence[Tensor], on_block: OnBlock, reductions: Sequence[Reduction]
    ) -> list[Tensor]:
        pending = [self.gather_async(tensor) for tensor in (*(points if self._points is None else ()), *numbers)]
        own = on_block(self.first_row, [*points, *numbers])
        for _, work in pending:
            work.wait()
        gathered = [[shards[rank][:size] for shards, _ in pending] for rank, size in enumerate(self.sizes)]
        if self._points is None:
            self._points = [tensors[: len(points)] for tensors in gathered]
            gathered = [tensors[len(points) :] for tensors in gathered]
        results = _ReduceToOwner(self, reductions)
        for rank, start in enumerate(self.starts):  # in the same order on all ranks, for they reduce together
            shard = [*self._points[rank], *gathered[rank]]
            results.send(own if rank == self.rank else on_block(start, shard), rank)
        return results.wait()


class _ReduceToOwner:
    """What a rank's rows made of each shard's columns, on its way to the rank that owns them."""

    def __init__(self, shards: ShardedColumns, reductions: Sequence[Reduction]):
        self.shards, self.reductions = shards, reductions
        self.pending: list[dist.Work] = []  # of one shard at most
        self.own: list[Tensor] = []
        self.logs: list[list[Tensor]] = [[] for _ in reductions]  # of every shard, where a log-sum is reduced

    def send(self, made: list[Tensor], rank: int) -> None:
        self._finish()
        for logs, tensor, reduction in zip(self.logs, made, self.reductions, strict=True):
            if reduction is LOG_SUM_EXP:
                logs.append(tensor)
            else:
                self.pending.append(dist.reduce(tensor, dst=rank, async_op=True))
        self.in_flight = made  # kept alive until it has left
        if rank == self.shards.rank:
            self.own = made

    def wait(self) -> list[Tensor]:
        self._finish()
        own = slice(self.shards.first_row, self.shards.first_row + self.shards.sizes[self.shards.rank])
        pairs = zip(self.own, self.logs, strict=True)
        return [_log_sum_over_ranks(torch.cat(logs))[own] if logs else sums for sums, logs in pairs]

    def _finish(self) -> None:
        for work in self.pending:
            work.wait()
        self.pending = []


def _log_sum_over_ranks(logs: Tensor) -> Tensor:
    highest = logs.clone()
    dist.all_reduce(highest, dist.ReduceOp.MAX)
    highest.clamp_(min=torch.finfo(logs.dtype).min)  # minus infinity less itself would be no number
    total = (logs - highest).exp_()
    dist.all_reduce(total)
    return total.log_().add_(highest)
