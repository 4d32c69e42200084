"""Points of all ranks on every rank, with gradients that come out as if there were one rank.

Every rank computes the loss of the whole batch from the gathered points, so each already has the full gradient of its
own points: backward needs no communication. Data-parallel wrappers then *average* parameter gradients over the ranks,
while the gradient of the whole batch is their *sum*; the factor `world` is put where it belongs, on the points, once.
What is not a function of gathered points (the temperature) has the same full gradient on every rank and needs none.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def in_company() -> bool:
    """Whether there are other ranks."""
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def gather_points(points: Tensor) -> Tensor:
    """[N/world, d] on each rank -> [N, d], in the order of ranks; differentiable in this rank's part."""
    return _Gather.apply(points) if in_company() else points  # type: ignore[no-untyped-call]


@torch.no_grad()
def gather_rows(rows: Tensor) -> Tensor:
    """As `gather_points`, for data that needs no gradient."""
    if not in_company():
        return rows
    parts = [torch.empty_like(rows) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, rows.contiguous())
    return torch.cat(parts)


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, points: Tensor) -> Tensor:
        ctx.mine = slice(dist.get_rank() * len(points), (dist.get_rank() + 1) * len(points))
        return gather_rows(points)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Tensor:
        return upstream[0][ctx.mine] * dist.get_world_size()
