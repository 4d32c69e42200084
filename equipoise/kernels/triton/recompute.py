"""Losses that know their own gradients: forward keeps a few numbers per sample, backward computes the rest again.

    sums = work.sums();   loss = work.loss(*sums);   work.grads(sums, upstream, needed)

`needed` says, for every tensor the work was made of, whether its gradient is wanted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor


class Work(Protocol):
    def sums(self) -> tuple[Tensor, ...]: ...

    def loss(self, *sums: Tensor) -> Tensor: ...

    def grads(
        self, sums: tuple[Tensor, ...], upstream: Tensor, needed: tuple[bool, ...]
    ) -> tuple[Tensor | None, ...]: ...


def recomputed(make: Callable[..., Work], *tensors: Tensor) -> Tensor:
    """The loss of `make(*tensors)`, differentiable in all of them."""
    return _Recomputed.apply(make, *(x.contiguous() for x in tensors))  # type: ignore[no-untyped-call]


class _Recomputed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, make: Callable[..., Work], *tensors: Tensor) -> Tensor:
        with torch.autocast(tensors[0].device.type, enabled=False), torch.cuda.device_of(tensors[0]):
            work = make(*tensors)
            sums = work.sums()
            ctx.save_for_backward(*tensors, *sums)
            ctx.make, ctx.count = make, len(tensors)
            return work.loss(*sums)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        tensors, sums = ctx.saved_tensors[: ctx.count], ctx.saved_tensors[ctx.count :]
        with torch.autocast(tensors[0].device.type, enabled=False), torch.cuda.device_of(tensors[0]):
            return None, *ctx.make(*tensors).grads(sums, upstream[0].float(), ctx.needs_input_grad[1:])
