"""The sigmoid loss with a learned bias on a GPU; rows and plans of `contrast_gpu.py`."""

from __future__ import annotations

import torch
from contrast_infonce import ours, plans, points
from contrast_subject import HALF, SINGLE, Loss, Row, Subject, exact
from torch import Tensor


def sigmoid() -> Subject:
    rows = [
        Row("fused bf16", HALF, ours_sigmoid("fused"), 1 << 20),
        Row("fused fp32", SINGLE, ours_sigmoid("fused"), 1 << 18),
        Row("tiled bf16", HALF, ours_sigmoid("tiled"), 32768),
        Row("tiled fp32", SINGLE, ours_sigmoid("tiled"), 32768),
        Row("eager fp32", SINGLE, ours_sigmoid("eager"), 32768),
    ]
    beside = Row("InfoNCE fused", HALF, ours("fused"), 1 << 20)
    return Subject("sigmoid", rows, inputs, exact(ours_sigmoid("tiled")), plans, by_plan, beside)


def inputs(n: int, d: int, dtype: torch.dtype, device: str) -> tuple[Tensor, ...]:
    return *points(n, d, dtype, device), torch.tensor(-10.0, device=device).requires_grad_()


def ours_sigmoid(impl: str) -> Loss:
    import equipoise as eq
    from equipoise.forms import Sigmoid

    def loss(u: Tensor, v: Tensor, log_scale: Tensor, bias: Tensor) -> Tensor:
        parts = {"space": eq.Sphere(u.shape[1]), "target": eq.OneHot(), "form": Sigmoid(learned=True)}
        return eq.contrast(u, v, log_scale=log_scale, bias=bias, impl=impl, **parts)

    return loss


def by_plan(plan) -> Loss:
    from equipoise.forms import Sigmoid
    from equipoise.kernels.triton.sigmoid import fused_sigmoid

    return lambda u, v, log_scale, bias: fused_sigmoid(u, v, log_scale, bias, Sigmoid(learned=True), plan)
