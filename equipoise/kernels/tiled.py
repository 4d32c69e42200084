"""A contrastive loss in tiles: exact loss and gradients, memory linear in N.

One sweep over blocks gives row and column statistics from the same similarities; a second recomputes each block,
asks the form for d loss / d logits and pushes it through the space's similarity at once. So four matrix products
of N × M × d in all (one forward, one recomputed, two backward), and never more than a few tiles alive. Similarities
have the points' type; logits, statistics and sums over tiles are float32 at least, for bfloat16 would lose what a
tile adds to many. The columns may be elsewhere (`sharding/columns.py`): a sweep is a round of them.
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
from equipoise.kernels.tiling import blocks, moved
from equipoise.spaces import Space
from equipoise.targets import Target, TargetBlock


@dataclass(frozen=True)
class Tiles:
    """What is computed of each tile, and how large it is."""

    space: Space
    target: Target
    form: ClosedFormGrad
    tile: int
    columns: Columns


def tiled(rows: Tensor, cols: Tensor, log_scale: Tensor, bias: Tensor, work: Tiles) -> Tensor:
    return _Tiled.apply(rows, cols, log_scale, bias, work)  # type: ignore[no-untyped-call]


class _Tiled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, cols: Tensor, log_scale: Tensor, bias: Tensor, work: Tiles) -> Tensor:
        form, columns = work.form, work.columns
        own = form.start(len(rows), 0, log_scale).rows

        def visit(start: int, come: Sequence[Tensor]) -> list[Tensor]:
            theirs = form.start(0, len(come[0]), log_scale).cols
            block = _Block(work, (rows, come[0], log_scale, bias), Statistics(own, theirs, columns.shape), start)
            for r, c in block:
                block.add_statistics(r, c)
            return list(theirs.values())

        at_home = columns.round((cols,), (), visit, list(form.reductions.values()))
        theirs = dict(zip(form.reductions, at_home, strict=True))
        ctx.save_for_backward(rows, cols, log_scale, bias, *own.values(), *at_home)
        ctx.work = work
        return columns.total(columns.share * form.finish(Statistics(own, theirs, (len(rows), len(cols)))))

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        rows, cols, log_scale, bias, *kept = ctx.saved_tensors
        work: Tiles = ctx.work
        names, columns = list(work.form.reductions), work.columns
        own = dict(zip(names, kept[: len(names)], strict=True))
        exact = log_scale.dtype
        for_rows, for_scale, for_bias = (torch.zeros_like(x, dtype=exact) for x in (rows, log_scale, bias))

        def visit(start: int, come: Sequence[Tensor]) -> list[Tensor]:
            theirs = dict(zip(names, come[1:], strict=True))
            block = _Block(work, (rows, come[0], log_scale, bias), Statistics(own, theirs, columns.shape), start)
            for_cols = torch.zeros_like(come[0], dtype=exact)
            for r, c in block:
                block.add_grads(r, c, (for_rows, for_cols, for_scale, for_bias))
            return [for_cols]

        [for_cols] = columns.round((cols,), kept[len(names) :], visit, [SUM])
        points = (upstream[0] * columns.averaged * g for g in (for_rows, for_cols))
        stretch = (upstream[0] * columns.total(g) for g in (for_scale, for_bias))
        given = rows.dtype, cols.dtype, exact, exact
        return *(g.to(kind) for g, kind in zip((*points, *stretch), given, strict=True)), None


class _Block:
    """The rows that are here against some columns, of which the first is number `start`."""

    def __init__(self, work: Tiles, tensors: tuple[Tensor, ...], statistics: Statistics, start: int):
        self.work, self.statistics, self.start = work, statistics, start
        self.rows, self.cols, log_scale, self.bias = tensors
        self.scale = log_scale.exp()

    def __iter__(self) -> Iterator[tuple[range, range]]:
        return blocks(len(self.rows), len(self.cols), self.work.tile)

    def add_statistics(self, r: range, c: range) -> None:
        similarity = self.work.space.similarity(self.rows[r.start : r.stop], self.cols[c.start : c.stop])
        logits = self.work.form.shifted(self.scale * similarity.to(self.scale.dtype), self.bias)
        found = self.work.form.partial(logits, self._wanted(r, c, logits))
        self.work.form.merge(self.statistics.at(r, c), found)

    def add_grads(self, r: range, c: range, grads: Sequence[Tensor]) -> None:
        """Those of rows, columns, log_scale and bias."""
        form = self.work.form
        with torch.enable_grad():
            block_rows = self.rows[r.start : r.stop].detach().requires_grad_()
            block_cols = self.cols[c.start : c.stop].detach().requires_grad_()
            similarity = self.work.space.similarity(block_rows, block_cols)
        stretched = self.scale * similarity.detach().to(self.scale.dtype)
        logits = form.shifted(stretched, self.bias)
        grad = form.grad(logits, self._wanted(r, c, logits), self.statistics.at(r, c))
        grads[2].add_(torch.sum(grad * stretched))
        if form.learned_bias is not None:
            grads[3].add_(grad.sum())
        grad_rows, grad_cols = torch.autograd.grad(
            similarity, (block_rows, block_cols), grad.mul_(self.scale).to(similarity.dtype)
        )
        grads[0][r.start : r.stop] += grad_rows
        grads[1][c.start : c.stop] += grad_cols

    def _wanted(self, r: range, c: range, like: Tensor) -> TargetBlock:
        return self.work.target.block(moved(r, self.work.columns.first_row), moved(c, self.start), like)
