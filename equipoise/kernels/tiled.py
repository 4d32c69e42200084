"""A contrastive loss in tiles: exact loss and gradients, memory linear in N.

One sweep over blocks gives row and column statistics from the same similarities; a second recomputes each block,
asks the form for d loss / d logits and pushes it through the scorer's similarity at once. So four matrix products
of N × M × d in all (one forward, one recomputed, two backward), and never more than a few tiles alive. Similarities
have the points' type; logits, statistics and sums over tiles are float32 at least, for bfloat16 would lose what a
tile adds to many. The columns may be on other processes (`sharding/columns.py`): a sweep visits them shard by shard.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from equipoise.forms import ClosedFormGrad, Statistics
from equipoise.forms.form import SUM
from equipoise.kernels.sharding.columns import Columns
from equipoise.kernels.tiling import blocks, offset
from equipoise.spaces import Scorer
from equipoise.targets import Target, TargetBlock


@dataclass(frozen=True)
class TiledWork:
    """What is computed per tile, the side of a tile, and where the columns are."""

    scorer: Scorer
    target: Target
    form: ClosedFormGrad
    tile: int
    columns: Columns


def tiled(rows: Tensor, cols: Tensor, log_scale: Tensor, bias: Tensor, work: TiledWork) -> Tensor:
    return _Tiled.apply(rows, cols, log_scale, bias, work)  # type: ignore[no-untyped-call]


class _Tiled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, cols: Tensor, log_scale: Tensor, bias: Tensor, work: TiledWork) -> Tensor:
        form, columns = work.form, work.columns
        row_stats = form.start(len(rows), 0, log_scale).rows

        def on_block(start: int, shard: Sequence[Tensor]) -> list[Tensor]:
            col_stats = form.start(0, len(shard[0]), log_scale).cols
            statistics = Statistics(row_stats, col_stats, columns.shape)
            block = _Block(work, (rows, shard[0], log_scale, bias), statistics, start)
            for r, c in block:
                block.add_statistics(r, c)
            return list(col_stats.values())

        reduced = columns.for_each_shard((cols,), (), on_block, list(form.reductions.values()))
        own_cols = dict(zip(form.reductions, reduced, strict=True))
        ctx.save_for_backward(rows, cols, log_scale, bias, *row_stats.values(), *reduced)
        ctx.work = work
        own_part = form.finish(Statistics(row_stats, own_cols, (len(rows), len(cols))))
        return columns.all_reduce(columns.share * own_part)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        rows, cols, log_scale, bias, *saved = ctx.saved_tensors
        work: TiledWork = ctx.work
        names, columns = list(work.form.reductions), work.columns
        row_stats = dict(zip(names, saved[: len(names)], strict=True))
        exact = log_scale.dtype
        for_rows, for_scale, for_bias = (torch.zeros_like(x, dtype=exact) for x in (rows, log_scale, bias))

        def on_block(start: int, shard: Sequence[Tensor]) -> list[Tensor]:
            statistics = Statistics(row_stats, dict(zip(names, shard[1:], strict=True)), columns.shape)
            block = _Block(work, (rows, shard[0], log_scale, bias), statistics, start)
            for_cols = torch.zeros_like(shard[0], dtype=exact)
            for r, c in block:
                block.add_grads(r, c, (for_rows, for_cols, for_scale, for_bias))
            return [for_cols]

        [for_cols] = columns.for_each_shard((cols,), saved[len(names) :], on_block, [SUM])
        points = (upstream[0] * columns.grad_factor * g for g in (for_rows, for_cols))
        scalars = (upstream[0] * columns.all_reduce(g) for g in (for_scale, for_bias))
        dtypes = rows.dtype, cols.dtype, exact, exact
        return *(g.to(dtype) for g, dtype in zip((*points, *scalars), dtypes, strict=True)), None


class _Block:
    """This process's rows against a block of columns, of which the first is number `start`."""

    def __init__(self, work: TiledWork, tensors: tuple[Tensor, ...], statistics: Statistics, start: int):
        self.work, self.statistics, self.start = work, statistics, start
        self.rows, self.cols, log_scale, self.bias = tensors
        self.scale = log_scale.exp()

    def __iter__(self) -> Iterator[tuple[range, range]]:
        return blocks(len(self.rows), len(self.cols), self.work.tile)

    def add_statistics(self, r: range, c: range) -> None:
        similarity = self.work.scorer.similarity(self.rows[r.start : r.stop], self.cols[c.start : c.stop])
        logits = self.work.form.shifted(self.scale * similarity.to(self.scale.dtype), self.bias)
        found = self.work.form.statistics(logits, self._target(r, c, logits))
        self.work.form.merge(self.statistics.at(r, c), found)

    def add_grads(self, r: range, c: range, grads: Sequence[Tensor]) -> None:
        """Add the tile's part in the gradients of rows, columns, log_scale and bias."""
        form = self.work.form
        with torch.enable_grad():
            block_rows = self.rows[r.start : r.stop].detach().requires_grad_()
            block_cols = self.cols[c.start : c.stop].detach().requires_grad_()
            similarity = self.work.scorer.similarity(block_rows, block_cols)
        scaled = self.scale * similarity.detach().to(self.scale.dtype)
        logits = form.shifted(scaled, self.bias)
        grad = form.grad(logits, self._target(r, c, logits), self.statistics.at(r, c))
        grads[2].add_(torch.sum(grad * scaled))
        if form.learned_bias is not None:
            grads[3].add_(grad.sum())
        grad_rows, grad_cols = torch.autograd.grad(
            similarity, (block_rows, block_cols), grad.mul_(self.scale).to(similarity.dtype)
        )
        grads[0][r.start : r.stop] += grad_rows
        grads[1][c.start : c.stop] += grad_cols

    def _target(self, r: range, c: range, like: Tensor) -> TargetBlock:
        return self.work.target.block(offset(r, self.work.columns.first_row), offset(c, self.start), like)
