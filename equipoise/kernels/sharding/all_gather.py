"""Columns of all ranks on every rank, compared with its own rows alone: few and large messages.

Points are gathered once and kept until the gradients are done, N × d numbers; while they are on their way the rows
visit the columns that are here. What the rows made of a part's columns is summed where these are at home, one part's
sum on its way while the next is made.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from equipoise.forms.form import LOG_SUM_EXP, Reduction
from equipoise.kernels.sharding.columns import Visit
from equipoise.kernels.sharding.shards import ShardedColumns


class AllGather(ShardedColumns):
    def __init__(self, rank: int, sizes: tuple[int, ...]):
        super().__init__(rank, sizes)
        self._points: list[list[Tensor]] | None = None  # of every rank

    def round(
        self, points: Sequence[Tensor], numbers: Sequence[Tensor], visit: Visit, rules: Sequence[Reduction]
    ) -> list[Tensor]:
        asked = [self.gathering(tensor) for tensor in (*(points if self._points is None else ()), *numbers)]
        here = visit(self.first_row, [*points, *numbers])
        for _, work in asked:
            work.wait()
        told = [[parts[rank][:size] for parts, _ in asked] for rank, size in enumerate(self.sizes)]
        if self._points is None:
            self._points, told = [t[: len(points)] for t in told], [t[len(points) :] for t in told]
        home = _Home(self, rules)
        for rank, start in enumerate(self.starts):  # in the same order on all ranks, for they sum together
            home.send(here if rank == self.rank else visit(start, [*self._points[rank], *told[rank]]), rank)
        return home.arrived()


class _Home:
    """What a rank's rows made of each part's columns, on its way to where these are at home."""

    def __init__(self, parts: ShardedColumns, rules: Sequence[Reduction]):
        self.parts, self.rules = parts, rules
        self.summing: list[dist.Work] = []  # at most one part's
        self.mine: list[Tensor] = []
        self.logs: list[list[Tensor]] = [[] for _ in rules]  # of every part, where the rule is a log-sum

    def send(self, made: list[Tensor], rank: int) -> None:
        self._wait()
        for logs, tensor, rule in zip(self.logs, made, self.rules, strict=True):
            if rule is LOG_SUM_EXP:
                logs.append(tensor)
            else:
                self.summing.append(dist.reduce(tensor, dst=rank, async_op=True))
        self.travelling = made
        if rank == self.parts.rank:
            self.mine = made

    def arrived(self) -> list[Tensor]:
        self._wait()
        mine = slice(self.parts.first_row, self.parts.first_row + self.parts.sizes[self.parts.rank])
        pairs = zip(self.mine, self.logs, strict=True)
        return [_log_sum_over_ranks(torch.cat(logs))[mine] if logs else sums for sums, logs in pairs]

    def _wait(self) -> None:
        for work in self.summing:
            work.wait()
        self.summing = []


def _log_sum_over_ranks(logs: Tensor) -> Tensor:
    highest = logs.clone()
    dist.all_reduce(highest, dist.ReduceOp.MAX)
    highest.clamp_(min=torch.finfo(logs.dtype).min)  # minus infinity less itself would be no number
    total = (logs - highest).exp_()
    dist.all_reduce(total)
    return total.log_().add_(highest)
