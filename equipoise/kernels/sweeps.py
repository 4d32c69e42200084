"""Any form and any target in tiles: exact loss and gradients, memory linear in N.

Where a form compares distributions, or a guide makes the target, normalisers come before everything else:

    forward    1. norms of whole rows and columns    2. statistics, given the norms      -> loss
    backward   3. d loss / d norms, block by block   4. d loss / d points, log_scale and guides, block by block

In a block, autograd differentiates the block's own few numbers; how these enter those of the whole is known: a sum
passes the gradient on, a log-sum-exp passes it on times the block's part in it. A form with a gradient of its own and
a target that is no softmax take the shorter way of `tiled.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from equipoise.forms.form import LOG_SUM_EXP, SUM, Form, Reduction, Statistics, empty, merge
from equipoise.kernels.blocks import blocks
from equipoise.spaces import Space
from equipoise.targets import Scores, Target, TargetBlock

GUIDE = "guide"  # the name of a guided target's own norms


def swept(
    rows: Tensor, cols: Tensor, log_scale: Tensor, bias: Tensor, space: Space, target: Target, form: Form, tile: int
) -> Tensor:
    parts = space, target, form, tile
    return _Swept.apply(parts, rows, cols, log_scale, bias, *target.tensors())  # type: ignore[no-untyped-call]


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
    def forward(ctx: Any, parts: tuple[Space, Target, Form, int], *tensors: Tensor) -> Tensor:
        space, target, form, tile = parts
        sweep = _Sweep(space, target, form, tile, tensors)
        norms = empty(sweep.norm_rules, *sweep.shape, sweep.like)
        for r, c in sweep if sweep.norm_rules else ():
            merge(sweep.norm_rules, norms.at(r, c), sweep.norms(r, c, *sweep.entries(r, c)))
        statistics = sweep.form.start(*sweep.shape, sweep.like)
        for r, c in sweep:
            sweep.form.merge(statistics.at(r, c), sweep.partial(r, c, *sweep.entries(r, c), norms.at(r, c)))
        ctx.parts, ctx.count = parts, len(tensors)
        ctx.save_for_backward(*tensors, *_values(norms), *_values(statistics))
        return sweep.form.finish(statistics)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        saved = list(ctx.saved_tensors)
        tensors = tuple(saved[: ctx.count])
        space, target, form, tile = ctx.parts
        sweep = _Sweep(space, target, form, tile, tensors)
        between = ctx.count + 2 * len(sweep.norm_rules)
        norms = _named(sweep.norm_rules, saved[ctx.count : between], sweep.shape)
        statistics = _named(sweep.form.reductions, saved[between:], sweep.shape)
        wanted = sweep.wanted_of(statistics, upstream[0])
        norms_wanted = empty(dict.fromkeys(sweep.norm_rules, SUM), *sweep.shape, sweep.like)
        for r, c in sweep if sweep.norm_rules else ():
            sweep.add_norms_wanted(r, c, norms, statistics, wanted, norms_wanted)
        needed = ctx.needs_input_grad[1:]
        exact = sweep.like.dtype
        grads = [torch.zeros_like(x, dtype=exact) if need else None for x, need in zip(tensors, needed, strict=True)]
        for r, c in sweep:
            sweep.add_grads(r, c, (norms, norms_wanted), (statistics, wanted), grads)
        return None, *(g if g is None else g.to(x.dtype) for g, x in zip(grads, tensors, strict=True))


class _Sweep:
    """One way over all blocks. tensors: rows, cols, log_scale, bias, and the target's own."""

    def __init__(self, space: Space, target: Target, form: Form, tile: int, tensors: tuple[Tensor, ...]):
        self.space, self.form, self.tile = space, form, tile
        self.tensors, self.target = tensors, target.on(tensors[4:])
        self.shape = len(tensors[0]), len(tensors[1])
        names = (*form.norm_names, *((GUIDE,) if target.guided else ()))
        self.norm_rules = {name: LOG_SUM_EXP for name in names}
        self.like = tensors[2].new_empty(0)  # of log_scale's type, float32 at least: that of logits, norms and sums

    def __iter__(self) -> Iterator[tuple[range, range]]:
        return blocks(*self.shape, self.tile)

    def entries(self, r: range, c: range) -> tuple[Tensor, Scores | None]:
        """The logits and the target's scores of a block."""
        rows, cols, log_scale, bias = self.tensors[:4]
        similarity = self.space.similarity(rows[r.start : r.stop], cols[c.start : c.stop])
        logits = self.form.shifted(log_scale.exp() * similarity.to(self.like), bias)
        return logits, self.target.scores(r, c, logits)

    def norms(self, r: range, c: range, logits: Tensor, scores: Scores | None) -> Statistics:
        return norms_of(self.form, self.target, logits, scores)

    def partial(self, r: range, c: range, logits: Tensor, scores: Scores | None, norms: Statistics) -> Statistics:
        return self.form.partial(logits, known_block(self.target, r, c, logits, scores, norms), norms)

    def wanted_of(self, statistics: Statistics, upstream: Tensor) -> Statistics:
        """d loss / d statistics."""
        with torch.enable_grad():
            leaves = [x.detach().requires_grad_() for x in _values(statistics)]
            loss = self.form.finish(_named(self.form.reductions, leaves, self.shape))
        return _named(self.form.reductions, torch.autograd.grad(loss, leaves, upstream), self.shape)

    def add_norms_wanted(
        self, r: range, c: range, norms: Statistics, statistics: Statistics, wanted: Statistics, into: Statistics
    ) -> None:
        """This block's part in d loss / d norms."""
        here = norms.at(r, c)
        logits, scores = self.entries(r, c)
        with torch.enable_grad():
            leaves = [x.detach().requires_grad_() for x in _values(here)]
            found = self.partial(r, c, logits, scores, _named(self.norm_rules, leaves, self.shape))
        outputs, weights = _weighted(self.form.reductions, found, statistics.at(r, c), wanted.at(r, c))
        for total, grad in zip(
            _values(into.at(r, c)), torch.autograd.grad(outputs, leaves, weights, allow_unused=True), strict=True
        ):
            if grad is not None:
                total.add_(grad)

    def add_grads(
        self,
        r: range,
        c: range,
        norms: tuple[Statistics, Statistics],
        statistics: tuple[Statistics, Statistics],
        grads: Sequence[Tensor | None],
    ) -> None:
        """This block's part in d loss / d tensors; norms and statistics each with what is wanted of them."""
        (norms_whole, norms_wanted), (whole, wanted) = norms, statistics
        leaves = tuple(
            x.detach().requires_grad_() if grad is not None else x for x, grad in zip(self.tensors, grads, strict=True)
        )
        sweep = _Sweep(self.space, self.target, self.form, self.tile, leaves)
        with torch.enable_grad():
            logits, scores = sweep.entries(r, c)
            here = norms_whole.at(r, c)
            first = sweep.norms(r, c, logits, scores)
            second = sweep.partial(r, c, logits, scores, here)
        outputs, weights = _weighted(self.norm_rules, first, here, norms_wanted.at(r, c))
        more = _weighted(self.form.reductions, second, whole.at(r, c), wanted.at(r, c))
        sought = [(x, grad) for x, grad in zip(leaves, grads, strict=True) if grad is not None]
        found = torch.autograd.grad(
            [*outputs, *more[0]], [x for x, _ in sought], [*weights, *more[1]], allow_unused=True
        )
        for (_, total), part in zip(sought, found, strict=True):
            if part is not None:
                total.add_(part)


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
