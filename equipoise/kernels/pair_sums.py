"""Sums over all pairs of samples, in tiles: memory linear in N, on one process or several.

    S_k = Σ_ij f_k(x_i, x_j)        with f_k(x_i, x_j) = f_k(x_j, x_i)

x_i the points of sample i, one of each kind. Because f is symmetric, ∂S/∂x_i = 2 Σ_j ∂f(x_i, x_j)/∂x_i: what the rows
make of the columns is all of their gradient, nothing goes back to the columns, and value and gradient of a tile are
found together and the tile is forgotten. It is differentiable once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from equipoise.kernels.sharding.columns import Columns
from equipoise.kernels.tiling import blocks

TILE = {"cpu": 512, "cuda": 2048}  # rows and columns of which autograd keeps a few tiles alive
# Points of some rows and of some columns, of each kind, to the sums [K] over this block
BlockSums = Callable[[Sequence[Tensor], Sequence[Tensor]], Tensor]


def pair_sums(points: Sequence[Tensor], of_block: BlockSums, columns: Columns, tile: int | None = None) -> Tensor:
    """S [K] over all samples of the batch, of which `points` [n, ...] are those of this process."""
    tile = tile or TILE.get(points[0].device.type, TILE["cpu"])
    return _PairSums.apply(of_block, columns, tile, *points)  # type: ignore[no-untyped-call]


class _PairSums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, of_block: BlockSums, columns: Columns, tile: int, *points: Tensor) -> Tensor:
        found = _Found(points, ctx.needs_input_grad[3:])

        def on_shard(_: int, shard: Sequence[Tensor]) -> list[Tensor]:
            for rows, cols in blocks(len(points[0]), len(shard[0]), tile):
                found.add(of_block, rows, [x[cols.start : cols.stop] for x in shard])
            return []

        columns.for_each_shard([x.detach() for x in points], (), on_shard, ())
        ctx.learned, ctx.factor = found.learned, 2 * columns.grad_factor
        ctx.save_for_backward(*found.grads)
        return columns.all_reduce(torch.stack(found.sums).sum(0)).to(points[0].dtype)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        weights, grads = ctx.factor * upstream[0], iter(ctx.saved_tensors)
        return (None, None, None, *(torch.tensordot(weights, next(grads), 1) if on else None for on in ctx.learned))


class _Found:
    """The sums of all tiles so far and, per kind of points that learns, their gradients by rows [K, n, ...]."""

    def __init__(self, points: Sequence[Tensor], learned: Sequence[bool]):
        self.points, self.learned = points, learned
        self.sums: list[Tensor] = []
        self.grads: list[Tensor] = []

    def add(self, of_block: BlockSums, rows: range, cols: Sequence[Tensor]) -> None:
        own = [x[rows.start : rows.stop].detach() for x in self.points]
        leaves = [x.requires_grad_() for x, on in zip(own, self.learned, strict=True) if on]
        with torch.enable_grad():
            sums = of_block(own, cols).unbind()
        self.sums.append(torch.stack([value.detach().double() for value in sums]))
        if not self.grads:
            self.grads = [
                x.new_zeros(len(sums), *x.shape) for x, on in zip(self.points, self.learned, strict=True) if on
            ]
        for k, value in enumerate(sums):
            parts = torch.autograd.grad(value, leaves, retain_graph=True) if leaves else ()
            for whole, part in zip(self.grads, parts, strict=True):
                whole[k, rows.start : rows.stop] += part
