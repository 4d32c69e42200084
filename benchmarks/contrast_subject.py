"""What `contrast_gpu.py` measures: a loss, the ways it is computed, its inputs, and the gradients it should have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

Loss = Callable[..., Tensor]  # of points, and of numbers such as log_scale
CHECKED = 64  # samples at either end whose gradients are compared
HALF, SINGLE = torch.bfloat16, torch.float32


@dataclass
class Row:
    name: str
    dtype: torch.dtype
    loss: Loss
    most: int  # pairs beyond which it is not tried
    exact: bool = True  # whether its gradients are meant to be those of the reference


@dataclass
class Subject:
    title: str
    rows: list[Row]
    inputs: Callable[[int, int, torch.dtype, str], tuple[Tensor, ...]]  # of pairs, dimensions, type and device
    reference: Callable[..., tuple[Tensor, ...]]  # gradients in float64 of the inputs, those of points `checked`
    plans: Callable[[], Iterator[tuple[str, object]]]  # how the fused kernels may be cut
    by_plan: Callable[[object], Loss]
    beside: Row | None = None  # what times are also given as multiples of; takes the first three inputs


def checked(grads: Tensor) -> Tensor:
    return torch.cat((grads[:CHECKED], grads[-CHECKED:])).double()


def exact(loss: Loss) -> Callable[..., tuple[Tensor, ...]]:
    """Gradients of `loss` in float64, from the same rounded inputs."""

    def reference(*inputs: Tensor) -> tuple[Tensor, ...]:
        leaves = [x.detach().double().requires_grad_() for x in inputs]
        return tuple(checked(g) if g.ndim else g for g in torch.autograd.grad(loss(*leaves), leaves))

    return reference


def errors(found: tuple[Tensor, ...], wanted: tuple[Tensor, ...]) -> tuple[float, float]:
    """Of the points' gradients relative to their largest entry, and of the numbers', log_scale among them."""
    pairs = list(zip(found, wanted, strict=True))
    return (
        max(float((checked(a) - b).abs().max() / b.abs().max()) for a, b in pairs if b.ndim),
        max(abs(float(a) / float(b) - 1) for a, b in pairs if not b.ndim),
    )
