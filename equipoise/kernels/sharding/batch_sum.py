"""A sum over the samples of a batch, wherever they are: with gradients that come out as if there were one process."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from equipoise.kernels.sharding.columns import Columns, Local
from equipoise.kernels.sharding.context import current_shards


def columns_of_batch(samples: int) -> Columns:
    """The batch that `samples` here are a shard of (`context.py`), or all of."""
    return current_shards() or Local(samples, samples)


def batch_sum(part: Tensor, columns: Columns) -> Tensor:
    """The sum over all processes of what each made of its own samples; differentiable in this process's part."""
    return _BatchSum.apply(part, columns)  # type: ignore[no-untyped-call]


class _BatchSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, part: Tensor, columns: Columns) -> Tensor:
        ctx.factor = columns.grad_factor
        return columns.all_reduce(part.detach().clone())

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None]:
        return upstream[0] * ctx.factor, None
