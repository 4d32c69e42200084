"""Any form and any target in tiles: exact loss and gradients, memory linear in N.

Where a form compares distributions, or a guide makes the target, normalizers come before everything else:

    forward    1. normalizers of whole rows and columns    2. statistics, given the normalizers      -> loss
    backward   3. d loss / d normalizers, block by block   4. d loss / d points, log_scale and guides, block by block

In a block, autograd differentiates the block's own few numbers; how these enter those of the whole is known: a sum
passes the gradient on, a log-sum-exp passes it on times the block's part in it. A form with a gradient of its own and
a target that is no softmax take the shorter way of `tiled.py`. The columns may be on other processes
(`sharding/columns.py`): each of the four is a pass over their shards, and what is known per column travels with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from equipoise.forms.form import SUM, Reduction, Statistics, empty
from equipoise.kernels.sharding.columns import OnBlock
from equipoise.kernels.tiled_normalized_block import NormalizedBlock, NormalizedWork, named, values
from equipoise.targets.target import COLS, ROWS, SHARED

Add = Callable[[NormalizedBlock, range, range, Statistics], None]


def tiled_normalized(rows: Tensor, cols: Tensor, log_scale: Tensor, bias: Tensor, work: NormalizedWork) -> Tensor:
    tensors = rows, cols, log_scale, bias, *work.target.tensors()
    return _TiledNormalized.apply(work, *tensors)  # type: ignore[no-untyped-call]


class _TiledNormalized(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, work: NormalizedWork, *tensors: Tensor) -> Tensor:
        passes = _Passes(work, tensors)
        normalizers = passes.reduce(work.norm_reductions, NormalizedBlock.add_normalizers)
        statistics = passes.reduce(work.form.reductions, NormalizedBlock.add_statistics, normalizers)
        ctx.work, ctx.count = work, len(tensors)
        ctx.save_for_backward(*tensors, *values(normalizers), *values(statistics))
        return work.columns.all_reduce(passes.part_of_loss(statistics))

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        saved = list(ctx.saved_tensors)
        tensors = tuple(saved[: ctx.count])
        work: NormalizedWork = ctx.work
        passes = _Passes(work, tensors)
        between = ctx.count + 2 * len(work.norm_reductions)
        normalizers = named(work.norm_reductions, saved[ctx.count : between], passes.shape)
        statistics = named(work.form.reductions, saved[between:], passes.shape)
        stat_grads = passes.statistics_grads(statistics, upstream[0])
        sums = dict.fromkeys(work.norm_reductions, SUM)
        norm_grads = passes.reduce(sums, NormalizedBlock.add_normalizer_grads, normalizers, statistics, stat_grads)
        grads = passes.grads(ctx.needs_input_grad[1:], normalizers, statistics, stat_grads, norm_grads)
        return None, *(g if g is None else g.to(x.dtype) for g, x in zip(grads, tensors, strict=True))


class _Passes:
    """Passes over all columns, shard by shard. tensors: rows, cols, log_scale, bias, and the target's own."""

    def __init__(self, work: NormalizedWork, tensors: tuple[Tensor, ...]):
        self.work, self.form, self.columns, self.tensors = work, work.form, work.columns, tensors
        self.shape = work.columns.shape
        self.sides = (ROWS, COLS, SHARED, SHARED, *work.target.sides())
        self.like = tensors[2].new_empty(0)  # log_scale's type, float32 at least: that of logits, normalizers and sums

    def reduce(self, reductions: Mapping[str, Reduction], add: Add, *known: Statistics) -> Statistics:
        """What `add` adds up over all blocks, of this process's rows and columns, as is `known`."""
        row_stats = empty(reductions, len(self.tensors[0]), 0, self.like).rows

        def on_block(start: int, shard: Sequence[Tensor]) -> list[Tensor]:
            col_stats = empty(reductions, 0, len(shard[0]), self.like).cols
            block, into = self._block(start, shard, known), Statistics(row_stats, col_stats, self.shape)
            for r, c in block:
                add(block, r, c, into.at(r, c))
            return list(col_stats.values())

        own_cols = self._for_each_shard(on_block, known, list(reductions.values())) if reductions else []
        return Statistics(row_stats, dict(zip(reductions, own_cols, strict=True)), self.shape)

    def part_of_loss(self, statistics: Statistics) -> Tensor:
        """What this process's rows and columns add to the loss."""
        own = replace(statistics, shape=(len(self.tensors[0]), len(self.tensors[1])))
        return self.columns.share * self.form.finish(own)

    def statistics_grads(self, statistics: Statistics, upstream: Tensor) -> Statistics:
        """d loss / d statistics."""
        with torch.enable_grad():
            leaves = [x.detach().requires_grad_() for x in values(statistics)]
            loss = self.part_of_loss(named(self.form.reductions, leaves, self.shape))
        return named(self.form.reductions, torch.autograd.grad(loss, leaves, upstream), self.shape)

    def grads(self, needed: Sequence[bool], *known: Statistics) -> list[Tensor | None]:
        """d loss / d tensors, where they are needed."""
        exact = self.like.dtype
        totals = [
            torch.zeros_like(x, dtype=exact) if need and side != COLS else None
            for x, need, side in zip(self.tensors, needed, self.sides, strict=True)
        ]
        of_cols = [number for number, side in enumerate(self.sides) if side == COLS]
        needed_of_cols = [number for number in of_cols if needed[number]]

        def on_block(start: int, shard: Sequence[Tensor]) -> list[Tensor]:
            block, into = self._block(start, shard, known), list(totals)
            for number, tensor in zip(of_cols, shard, strict=False):
                into[number] = torch.zeros_like(tensor, dtype=exact) if needed[number] else None
            for r, c in block:
                block.add_grads(r, c, into)
            return [grad for number in needed_of_cols if (grad := into[number]) is not None]

        reduced = self._for_each_shard(on_block, known, [SUM] * len(needed_of_cols))
        for number, grad in zip(needed_of_cols, reduced, strict=True):
            totals[number] = grad
        return [
            g if g is None else self.columns.all_reduce(g) if side == SHARED else g * self.columns.grad_factor
            for g, side in zip(totals, self.sides, strict=True)
        ]

    def _for_each_shard(
        self, on_block: OnBlock, known: Sequence[Statistics], reductions: Sequence[Reduction]
    ) -> list[Tensor]:
        points = [x for x, side in zip(self.tensors, self.sides, strict=True) if side == COLS]
        numbers = [x for part in known for x in part.cols.values()]
        return self.columns.for_each_shard(points, numbers, on_block, reductions)

    def _block(self, start: int, shard: Sequence[Tensor], known: Sequence[Statistics]) -> NormalizedBlock:
        """The block of a shard of columns: first its part of the tensors, then what is known of it."""
        parts = iter(shard)
        tensors = tuple(next(parts) if side == COLS else x for x, side in zip(self.tensors, self.sides, strict=True))
        of_shard = [Statistics(part.rows, {name: next(parts) for name in part.cols}, self.shape) for part in known]
        return NormalizedBlock(self.work, start, tensors, of_shard)
