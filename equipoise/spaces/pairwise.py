"""Distances of every row to every column, for blocks: as fast as a matrix product, accurate also where points meet.

    squares   ‖u - v‖² = ‖u‖² + ‖v‖² - 2⟨u, v⟩
    straight  D = ‖u - v‖                                          ∂D/∂u = (u - v)/D
    arcs      D = √Σ_k θ_k²,  θ = 2 atan2(‖u - v‖, ‖u + v‖) for each sphere k
              ∂θ/∂u = -2(v - q u) / (‖u - v‖ ‖u + v‖),   q = 2⟨u, v⟩/(‖u‖² + ‖v‖²)

u [R, d], v [C, d], D [R, C]. For unit vectors q = cos θ = ⟨u, v⟩, and the gradient of θ is a unit tangent: nothing
overflows, near θ = π neither. A square that comes out as the small difference of large numbers has lost its digits;
those few are computed again from the vectors' difference, a bounded number at a time.

Memory: a few [R, C] matrices, however many spheres there are. They are visited one after the other, forward and
again backward, and only D is kept between. Gradients are 0 where a distance is 0 or an angle π. Once differentiable.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

LOST_DIGITS = 1e-3  # a square below this share of ‖u‖² + ‖v‖² is computed again
AT_ONCE = 1 << 22  # numbers, while that is done


def straight(rows: Tensor, cols: Tensor) -> Tensor:
    """Euclidean distances [R, C]."""
    return _Straight.apply(rows, cols)  # type: ignore[no-untyped-call]


def arcs(rows: Tensor, cols: Tensor, spheres: int) -> Tensor:
    """Geodesic distances [R, C] on a product of `spheres` spheres."""
    return _Arcs.apply(rows, cols, spheres)  # type: ignore[no-untyped-call]


class _Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, cols: Tensor) -> Tensor:
        distance = _squares(rows, cols, _lengths(rows, cols), rows @ cols.T, 1).sqrt_()
        ctx.save_for_backward(rows, cols, distance)
        return distance

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, Tensor]:
        rows, cols, distance = ctx.saved_tensors
        weight = _ratio(upstream, distance)
        return weight.sum(1)[:, None] * rows - weight @ cols, weight.sum(0)[:, None] * cols - weight.T @ rows


class _Arcs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, cols: Tensor, spheres: int) -> Tensor:
        total = rows.new_zeros(len(rows), len(cols))
        for u, v in zip(rows.chunk(spheres, 1), cols.chunk(spheres, 1), strict=True):
            total += _angle(*_chords(u, v)).square_()
        ctx.save_for_backward(rows, cols, total.sqrt_())
        ctx.spheres = spheres
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, Tensor, None]:
        rows, cols, distance = ctx.saved_tensors
        upstream = _ratio(upstream, distance)
        grads = torch.empty_like(rows), torch.empty_like(cols)
        parts = (whole.chunk(ctx.spheres, 1) for whole in (rows, cols, *grads))
        for u, v, grad_u, grad_v in zip(*parts, strict=True):
            near, far = _chords(u, v)
            weight = _ratio(upstream * _angle(near, far), near * far).mul_(-2)
            along = _ratio(far.square_() - near.square_(), far + near).mul_(weight)
            grad_u.copy_(weight @ v - along.sum(1)[:, None] * u)
            grad_v.copy_(weight.T @ u - along.sum(0)[:, None] * v)
        return *grads, None


def _chords(u: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """‖u - v‖ and ‖u + v‖ [R, C]."""
    lengths, inner = _lengths(u, v), u @ v.T
    return _squares(u, v, lengths, inner, 1).sqrt_(), _squares(u, v, lengths, inner, -1).sqrt_()


def _angle(near: Tensor, far: Tensor) -> Tensor:
    return torch.atan2(near, far).mul_(2)


def _lengths(u: Tensor, v: Tensor) -> Tensor:
    """‖u‖² + ‖v‖² [R, C]."""
    return u.square().sum(1)[:, None] + v.square().sum(1)


def _squares(u: Tensor, v: Tensor, lengths: Tensor, inner: Tensor, sign: int) -> Tensor:
    """‖u - sign·v‖² [R, C], never negative."""
    squares = lengths - 2 * sign * inner
    lost = (squares < LOST_DIGITS * lengths).nonzero()
    for i, j in (entries.unbind(1) for entries in lost.split(max(1, AT_ONCE // u.shape[1]))):
        squares[i, j] = torch.add(u[i], v[j], alpha=-sign).square_().sum(1)
    return squares


def _ratio(over: Tensor, under: Tensor) -> Tensor:
    """over / under, and 0 where `under` is 0."""
    return torch.where(under > 0, over / torch.where(under > 0, under, 1), 0)
