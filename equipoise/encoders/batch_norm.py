"""Batch norm whose result depends neither on the number of processes nor on how often a batch is passed.

Ioffe & Szegedy 2015, "Batch Normalization", Algorithm 1; the gradient is the one of its §3.

    y = weight · (x - mean)/√(var + ε) + bias          mean, var over all pictures and places of the batch
    dx = weight/√(var + ε) · (g - mean(g) - x̂ · mean(g·x̂)),     x̂ = (x - mean)/√(var + ε)

Two things go wrong without care. Several processes would each normalise with the statistics of their own share, so that
losses depend on their number: here `total` sums over all of them. And a batch that is passed twice (micro-batches with
cached gradients, recomputed activations) would count twice in the running statistics, which evaluation uses:
`leaving_statistics` passes it without counting. With neither this is torch's own layer.

x [N, C, H, W]; weight, bias, mean, var [C].
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.modules.batchnorm import _BatchNorm

Total = Callable[[Tensor], Tensor]  # the sum of a tensor over all processes
OVER = (0, 2, 3)


class BatchNorm(nn.BatchNorm2d):
    total: Total | None = None  # set where several processes hold parts of the batch

    def forward(self, x: Tensor) -> Tensor:
        if self.total is None or not self.training:
            return super().forward(x)
        y, mean, var, count = _Normalised.apply(x, self.weight, self.bias, self.eps, self.total)  # type: ignore[no-untyped-call]
        if self.track_running_stats:
            self._update_statistics(mean, var * (count / (count - 1)))
        return y

    @torch.no_grad()
    def _update_statistics(self, mean: Tensor, unbiased: Tensor) -> None:
        assert self.num_batches_tracked is not None
        self.num_batches_tracked.add_(1)
        for running, new in ((self.running_mean, mean), (self.running_var, unbiased)):
            assert running is not None
            assert self.momentum is not None
            running.lerp_(new.to(running.dtype), self.momentum)


@contextmanager
def leaving_statistics(module: nn.Module) -> Iterator[None]:
    """Context in which batches pass without changing running statistics, in batch norms of any library.

    The layers still update their statistics, with a momentum of 0: a layer without would save other tensors for
    backward, which recomputing does not allow.
    """
    parts = [(norm, norm.momentum, norm.num_batches_tracked) for norm in batch_norms(module)]
    before = [(norm, momentum, count, count.clone()) for norm, momentum, count in parts if count is not None]
    for norm, *_ in before:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for norm, momentum, count, former in before:
            norm.momentum = momentum
            count.copy_(former)


def batch_norms(module: nn.Module) -> list[_BatchNorm]:
    return [part for part in module.modules() if isinstance(part, _BatchNorm)]


class _Normalised(torch.autograd.Function):
    """Normalisation with statistics in float32 at least; of the activations only the input is saved for backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, eps: float, total: Total) -> tuple[Tensor, ...]:
        wide = _wide(x)
        local = torch.full((1,), x.numel() / x.shape[1], dtype=wide.dtype, device=x.device)
        sums = total(torch.cat([wide.sum(OVER), local]))
        count, mean = sums[-1], sums[:-1] / sums[-1]
        var = total((wide - _spread(mean)).square().sum(OVER)) / count
        inverse = (var + eps).rsqrt()
        y = torch.addcmul(_spread(bias), wide - _spread(mean), _spread(weight * inverse)).to(x.dtype)
        ctx.save_for_backward(x, weight, mean, inverse, count)
        ctx.total = total
        ctx.mark_non_differentiable(mean, var, count)
        return y, mean, var, count

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, mean, inverse, count = ctx.saved_tensors
        g, normal = _wide(upstream[0]), (_wide(x) - _spread(mean)) * _spread(inverse)
        bias_grad, weight_grad = g.sum(OVER), (g * normal).sum(OVER)
        mean_grad, mean_projection = ctx.total(torch.stack([bias_grad, weight_grad])) / count
        dx = _spread(weight * inverse) * (g - _spread(mean_grad) - normal * _spread(mean_projection))
        return dx.to(x.dtype), weight_grad.to(weight.dtype), bias_grad.to(weight.dtype), None, None


def _wide(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def _spread(channels: Tensor) -> Tensor:
    return channels[:, None, None]
