"""Any form and any target in tiles: exact loss and gradients, memory linear in N.

Where a form compares distributions, or a guide makes the target, normalisers come before everything else:

    forward    1. normalizers of whole rows and columns    2. statistics, given the normalizers      -> loss
    backward   3. d loss / d normalizers, block by block   4. d loss / d points, log_scale and guides, block by block

In a block, autograd differentiates the block's own few numbers; how these enter those of the whole is known: a sum
passes the gradient on, a log-sum-exp passes it on times the block's part in it. A form with a gradient of its own and
a target that is no softmax take the shorter way of `tiled.py`. The columns may be elsewhere (`sharding/columns.py`):
each of the four is a round of them, and what is known of a column already travels with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from equipoise.forms.form import SUM, Reduction, Statistics, empty
from equipoise.kernels.sharding.columns import Visit
from equipoise.kernels.tiled_normalized_block import NormalizedBlock, Sweeps, named, values
from equipoise.targets.target import COLS, ROWS, SHARED

Add = Callable[[NormalizedBlock, range, range, Statistics], None]


def swept(rows: Tensor, cols: Tensor, log_scale: Tensor, bias: Tensor, work: Sweeps) -> Tensor:
    return _Swept.apply(work, rows, cols, log_scale, bias, *work.target.tensors())  # type: ignore[no-untyped-call]


class _Swept(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, work: Sweeps, *tensors: Tensor) -> Tensor:
        sweep = _Sweep(work, tensors)
        normalizers = sweep.around(work.norm_rules, NormalizedBlock.add_norms)
        statistics = sweep.around(work.form.reductions, NormalizedBlock.add_statistics, normalizers)
        ctx.work, ctx.count = work, len(tensors)
        ctx.save_for_backward(*tensors, *values(normalizers), *values(statistics))
        return work.columns.total(sweep.part_of_loss(statistics))

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        saved = list(ctx.saved_tensors)
        tensors = tuple(saved[: ctx.count])
        work: Sweeps = ctx.work
        sweep = _Sweep(work, tensors)
        between = ctx.count + 2 * len(work.norm_rules)
        normalizers = named(work.norm_rules, saved[ctx.count : between], sweep.shape)
        statistics = named(work.form.reductions, saved[between:], sweep.shape)
        wanted = sweep.wanted_of(statistics, upstream[0])
        sums = dict.fromkeys(work.norm_rules, SUM)
        norms_wanted = sweep.around(sums, NormalizedBlock.add_norms_wanted, normalizers, statistics, wanted)
        grads = sweep.grads(ctx.needs_input_grad[1:], normalizers, statistics, wanted, norms_wanted)
        return None, *(g if g is None else g.to(x.dtype) for g, x in zip(grads, tensors, strict=True))


class _Sweep:
    """Rounds of all columns. tensors: rows, cols, log_scale, bias, and the target's own."""

    def __init__(self, work: Sweeps, tensors: tuple[Tensor, ...]):
        self.work, self.form, self.columns, self.tensors = work, work.form, work.columns, tensors
        self.shape = work.columns.shape
        self.sides = (ROWS, COLS, SHARED, SHARED, *work.target.sides())
        self.like = tensors[2].new_empty(
            0
        )  # of log_scale's type, float32 at least: that of logits, normalizers and sums

    def around(self, rules: Mapping[str, Reduction], add: Add, *known: Statistics) -> Statistics:
        """What `add` adds up over all blocks: of the rows and the columns that are at home here, as is `known`."""
        own = empty(rules, len(self.tensors[0]), 0, self.like).rows

        def visit(start: int, come: Sequence[Tensor]) -> list[Tensor]:
            theirs = empty(rules, 0, len(come[0]), self.like).cols
            block, into = self._block(start, come, known), Statistics(own, theirs, self.shape)
            for r, c in block:
                add(block, r, c, into.at(r, c))
            return list(theirs.values())

        found = self._round(visit, known, list(rules.values())) if rules else []
        return Statistics(own, dict(zip(rules, found, strict=True)), self.shape)

    def part_of_loss(self, statistics: Statistics) -> Tensor:
        """What the rows and columns that are at home here add to the loss."""
        here = replace(statistics, shape=(len(self.tensors[0]), len(self.tensors[1])))
        return self.columns.share * self.form.finish(here)

    def wanted_of(self, statistics: Statistics, upstream: Tensor) -> Statistics:
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
        travelling = [number for number, side in enumerate(self.sides) if side == COLS]
        wanted = [number for number in travelling if needed[number]]

        def visit(start: int, come: Sequence[Tensor]) -> list[Tensor]:
            block, into = self._block(start, come, known), list(totals)
            for number, tensor in zip(travelling, come, strict=False):
                into[number] = torch.zeros_like(tensor, dtype=exact) if needed[number] else None
            for r, c in block:
                block.add_grads(r, c, into)
            return [grad for number in wanted if (grad := into[number]) is not None]

        at_home = self._round(visit, known, [SUM] * len(wanted))
        for number, grad in zip(wanted, at_home, strict=True):
            totals[number] = grad
        return [
            g if g is None else self.columns.total(g) if side == SHARED else g * self.columns.averaged
            for g, side in zip(totals, self.sides, strict=True)
        ]

    def _round(self, visit: Visit, known: Sequence[Statistics], rules: Sequence[Reduction]) -> list[Tensor]:
        points = [x for x, side in zip(self.tensors, self.sides, strict=True) if side == COLS]
        return self.columns.round(points, [x for part in known for x in part.cols.values()], visit, rules)

    def _block(self, start: int, come: Sequence[Tensor], known: Sequence[Statistics]) -> NormalizedBlock:
        """The block of columns that have come: their part of the tensors, and then what is known of them."""
        parts = iter(come)
        tensors = tuple(next(parts) if side == COLS else x for x, side in zip(self.tensors, self.sides, strict=True))
        here = [Statistics(part.rows, {name: next(parts) for name in part.cols}, self.shape) for part in known]
        return NormalizedBlock(self.work, start, tensors, here)
