"""Any form and any target in tiles: exact loss and gradients, memory linear in N.

Where a form compares distributions, or a guide makes the target, normalisers come before everything else:

    forward    1. norms of whole rows and columns    2. statistics, given the norms      -> loss
    backward   3. d loss / d norms, block by block   4. d loss / d points, log_scale and guides, block by block

In a block, autograd differentiates the block's own few numbers; how these enter those of the whole is known: a sum
passes the gradient on, a log-sum-exp passes it on times the block's part in it. A form with a gradient of its own and
a target that is no softmax take the shorter way of `tiled.py`. The columns may be elsewhere (`columns.py`): each of the
four is a round of them, and what is known of a column already travels with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from equipoise.forms.form import LOG_SUM_EXP, SUM, Form, Reduction, Statistics, empty, merge
from equipoise.kernels.blocks import blocks, moved
from equipoise.kernels.columns import Columns, Visit
from equipoise.spaces import Space
from equipoise.targets import Scores, Target, TargetBlock
from equipoise.targets.target import COLS, ROWS, SHARED

GUIDE = "guide"  # the name of a guided target's own norms


@dataclass(frozen=True)
class Sweeps:
    """What is computed of each tile, and how large it is."""

    space: Space
    target: Target
    form: Form
    tile: int
    columns: Columns


def swept(rows: Tensor, cols: Tensor, log_scale: Tensor, bias: Tensor, work: Sweeps) -> Tensor:
    return _Swept.apply(work, rows, cols, log_scale, bias, *work.target.tensors())  # type: ignore[no-untyped-call]


def norms_of(form: Form, target: Target, logits: Tensor, scores: Scores | None) -> Statistics:
    """What a block adds to the norms of its rows and columns, the form's and the target's."""
    found = form.norms(logits, scores)
    if not target.guided:
        return found
    assert scores is not None
    rows = {**found.rows, GUIDE: torch.logsumexp(scores.by_row, 1)}
    return Statistics(rows, {**found.cols, GUIDE: torch.logsumexp(scores.by_col, 0)}, found.shape)


def known_block(
    target: Target, rows: range, cols: range, like: Tensor, scores: Scores | None, norms: Statistics
) -> TargetBlock:
    """The target's block, once the norms of its rows and columns are known."""
    if scores is not None and target.guided:
        scores = scores._replace(row_norms=norms.rows[GUIDE], col_norms=norms.cols[GUIDE])
    return target.block(rows, cols, like, scores)


class _Swept(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, work: Sweeps, *tensors: Tensor) -> Tensor:
        sweep = _Sweep(work, tensors)
        norms = sweep.around(sweep.norm_rules, _Block.add_norms)
        statistics = sweep.around(work.form.reductions, _Block.add_statistics, norms)
        ctx.work, ctx.count = work, len(tensors)
        ctx.save_for_backward(*tensors, *_values(norms), *_values(statistics))
        return work.columns.total(sweep.part_of_loss(statistics))

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        saved = list(ctx.saved_tensors)
        tensors = tuple(saved[: ctx.count])
        sweep = _Sweep(ctx.work, tensors)
        between = ctx.count + 2 * len(sweep.norm_rules)
        norms = _named(sweep.norm_rules, saved[ctx.count : between], sweep.shape)
        statistics = _named(sweep.form.reductions, saved[between:], sweep.shape)
        wanted = sweep.wanted_of(statistics, upstream[0])
        sums = dict.fromkeys(sweep.norm_rules, SUM)
        norms_wanted = sweep.around(sums, _Block.add_norms_wanted, norms, statistics, wanted)
        grads = sweep.grads(ctx.needs_input_grad[1:], norms, statistics, wanted, norms_wanted)
        return None, *(g if g is None else g.to(x.dtype) for g, x in zip(grads, tensors, strict=True))


class _Sweep:
    """Rounds of all columns. tensors: rows, cols, log_scale, bias, and the target's own."""

    def __init__(self, work: Sweeps, tensors: tuple[Tensor, ...]):
        self.work, self.form, self.columns, self.tensors = work, work.form, work.columns, tensors
        self.shape = work.columns.shape
        self.sides = (ROWS, COLS, SHARED, SHARED, *work.target.sides())
        names = (*work.form.norm_names, *((GUIDE,) if work.target.guided else ()))
        self.norm_rules = {name: LOG_SUM_EXP for name in names}
        self.like = tensors[2].new_empty(0)  # of log_scale's type, float32 at least: that of logits, norms and sums

    def around(self, rules: Mapping[str, Reduction], add: Add, *known: Statistics) -> Statistics:
        """What `add` adds up over all blocks: of the rows and the columns that are at home here, as is `known`."""
        own = empty(rules, len(self.tensors[0]), 0, self.like).rows

        def visit(start: int, points: Sequence[Tensor], numbers: Sequence[Tensor]) -> list[Tensor]:
            theirs = empty(rules, 0, len(points[0]), self.like).cols
            block, into = self._block(start, points, numbers, known), Statistics(own, theirs, self.shape)
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
            leaves = [x.detach().requires_grad_() for x in _values(statistics)]
            loss = self.part_of_loss(_named(self.form.reductions, leaves, self.shape))
        return _named(self.form.reductions, torch.autograd.grad(loss, leaves, upstream), self.shape)

    def grads(self, needed: Sequence[bool], *known: Statistics) -> list[Tensor | None]:
        """d loss / d tensors, where they are needed."""
        exact = self.like.dtype
        totals = [
            torch.zeros_like(x, dtype=exact) if need else None for x, need in zip(self.tensors, needed, strict=True)
        ]
        travelling = [number for number, side in enumerate(self.sides) if side == COLS]
        wanted = [number for number in travelling if needed[number]]

        def visit(start: int, points: Sequence[Tensor], numbers: Sequence[Tensor]) -> list[Tensor]:
            block, into = self._block(start, points, numbers, known), list(totals)
            for number, tensor in zip(travelling, points, strict=True):
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

    def _block(
        self, start: int, points: Sequence[Tensor], numbers: Sequence[Tensor], known: Sequence[Statistics]
    ) -> _Block:
        come, told = iter(points), iter(numbers)
        tensors = tuple(next(come) if side == COLS else x for x, side in zip(self.tensors, self.sides, strict=True))
        here = [Statistics(part.rows, {name: next(told) for name in part.cols}, self.shape) for part in known]
        return _Block(self, start, tensors, here)


class _Block:
    """The rows that are here against some columns, of which the first is number `start`. Known of both, as far as the
    rounds have come: norms, statistics, what is wanted of statistics, what is wanted of norms."""

    def __init__(self, sweep: _Sweep, start: int, tensors: tuple[Tensor, ...], known: Sequence[Statistics]):
        self.sweep, self.start, self.tensors, self.known = sweep, start, tensors, known
        self.form, self.like, self.origin = sweep.form, sweep.like, (sweep.columns.first_row, start)
        self.target = sweep.work.target.on(tensors[4:], self.origin)

    def __iter__(self) -> Iterator[tuple[range, range]]:
        return blocks(len(self.tensors[0]), len(self.tensors[1]), self.sweep.work.tile)

    def add_norms(self, r: range, c: range, into: Statistics) -> None:
        merge(self.sweep.norm_rules, into, norms_of(self.form, self.target, *self._entries(r, c)))

    def add_statistics(self, r: range, c: range, into: Statistics) -> None:
        self.form.merge(into, self._partial(r, c, *self._entries(r, c), self.known[0].at(r, c)))

    def add_norms_wanted(self, r: range, c: range, into: Statistics) -> None:
        """This block's part in d loss / d norms."""
        norms, statistics, wanted = (part.at(r, c) for part in self.known)
        logits, scores = self._entries(r, c)
        with torch.enable_grad():
            leaves = [x.detach().requires_grad_() for x in _values(norms)]
            found = self._partial(r, c, logits, scores, _named(self.sweep.norm_rules, leaves, norms.shape))
        outputs, weights = _weighted(self.form.reductions, found, statistics, wanted)
        for total, grad in zip(
            _values(into), torch.autograd.grad(outputs, leaves, weights, allow_unused=True), strict=True
        ):
            if grad is not None:
                total.add_(grad)

    def add_grads(self, r: range, c: range, grads: Sequence[Tensor | None]) -> None:
        """This block's part in d loss / d tensors."""
        norms, statistics, wanted, norms_wanted = (part.at(r, c) for part in self.known)
        leaves = tuple(
            x.detach().requires_grad_() if grad is not None else x for x, grad in zip(self.tensors, grads, strict=True)
        )
        block = _Block(self.sweep, self.start, leaves, self.known)
        with torch.enable_grad():
            logits, scores = block._entries(r, c)
            first = norms_of(self.form, block.target, logits, scores)
            second = block._partial(r, c, logits, scores, norms)
        outputs, weights = _weighted(self.sweep.norm_rules, first, norms, norms_wanted)
        more = _weighted(self.form.reductions, second, statistics, wanted)
        sought = [(x, grad) for x, grad in zip(leaves, grads, strict=True) if grad is not None]
        found = torch.autograd.grad(
            [*outputs, *more[0]], [x for x, _ in sought], [*weights, *more[1]], allow_unused=True
        )
        for (_, total), part in zip(sought, found, strict=True):
            if part is not None:
                total.add_(part)

    def _entries(self, r: range, c: range) -> tuple[Tensor, Scores | None]:
        """The logits and the target's scores of a tile."""
        rows, cols, log_scale, bias = self.tensors[:4]
        similarity = self.sweep.work.space.similarity(rows[r.start : r.stop], cols[c.start : c.stop])
        logits = self.form.shifted(log_scale.exp() * similarity.to(self.like), bias)
        return logits, self.target.scores(*self._place(r, c), logits)

    def _partial(self, r: range, c: range, logits: Tensor, scores: Scores | None, norms: Statistics) -> Statistics:
        return self.form.partial(logits, known_block(self.target, *self._place(r, c), logits, scores, norms), norms)

    def _place(self, r: range, c: range) -> tuple[range, range]:
        return moved(r, self.origin[0]), moved(c, self.origin[1])


Add = Callable[[_Block, range, range, Statistics], None]


def _weighted(
    rules: Mapping[str, Reduction], block: Statistics, whole: Statistics, wanted: Statistics
) -> tuple[list[Tensor], list[Tensor]]:
    """A block's numbers that depend on anything, each with d loss / d it."""
    outputs, weights = [], []
    for part, total, want in ((block.rows, whole.rows, wanted.rows), (block.cols, whole.cols, wanted.cols)):
        for name, rule in rules.items():
            if part[name].requires_grad:
                outputs.append(part[name])
                share = (part[name].detach() - total[name]).exp() if rule is LOG_SUM_EXP else 1
                weights.append(want[name] * share)
    return outputs, weights


def _values(statistics: Statistics) -> list[Tensor]:
    return [*statistics.rows.values(), *statistics.cols.values()]


def _named(names: Iterable[str], values: Sequence[Tensor], shape: tuple[int, int]) -> Statistics:
    """The reverse of `_values`."""
    half = len(values) // 2
    return Statistics(dict(zip(names, values[:half], strict=True)), dict(zip(names, values[half:], strict=True)), shape)
