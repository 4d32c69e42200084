"""A block of a contrast with normalizers: what each of the four rounds of `tiled_normalized.py` makes of its tiles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from equipoise.forms.form import LOG_SUM_EXP, Form, Reduction, Statistics, merge
from equipoise.kernels.sharding.columns import Columns
from equipoise.kernels.tiling import blocks, moved
from equipoise.spaces import Space
from equipoise.targets import Scores, Target, TargetBlock

GUIDE = "guide"  # the name of a guided target's own normalizers


@dataclass(frozen=True)
class Sweeps:
    """What is computed of each tile, and how large it is."""

    space: Space
    target: Target
    form: Form
    tile: int
    columns: Columns

    @property
    def norm_rules(self) -> dict[str, Reduction]:
        names = (*self.form.normalizer_names, *((GUIDE,) if self.target.guided else ()))
        return dict.fromkeys(names, LOG_SUM_EXP)


def norms_of(form: Form, target: Target, logits: Tensor, scores: Scores | None) -> Statistics:
    """What a block adds to the normalizers of its rows and columns, the form's and the target's."""
    found = form.normalizers(logits, scores)
    if not target.guided:
        return found
    assert scores is not None
    rows = {**found.rows, GUIDE: torch.logsumexp(scores.by_row, 1)}
    return Statistics(rows, {**found.cols, GUIDE: torch.logsumexp(scores.by_col, 0)}, found.shape)


def known_block(
    target: Target, rows: range, cols: range, like: Tensor, scores: Scores | None, normalizers: Statistics
) -> TargetBlock:
    """The target's block, once the normalizers of its rows and columns are known."""
    if scores is not None and target.guided:
        scores = scores._replace(row_norms=normalizers.rows[GUIDE], col_norms=normalizers.cols[GUIDE])
    return target.block(rows, cols, like, scores)


class NormalizedBlock:
    """The rows that are here against some columns, of which the first is number `start`. Known of both, as far as the
    rounds have come: normalizers, statistics, what is wanted of statistics, what is wanted of normalizers."""

    def __init__(self, work: Sweeps, start: int, tensors: tuple[Tensor, ...], known: Sequence[Statistics]):
        self.work, self.form, self.start, self.tensors, self.known = work, work.form, start, tensors, known
        self.origin = work.columns.first_row, start
        self.target = work.target.on(tensors[4:], self.origin)

    def __iter__(self) -> Iterator[tuple[range, range]]:
        return blocks(len(self.tensors[0]), len(self.tensors[1]), self.work.tile)

    def add_norms(self, r: range, c: range, into: Statistics) -> None:
        merge(self.work.norm_rules, into, norms_of(self.form, self.target, *self._entries(r, c)))

    def add_statistics(self, r: range, c: range, into: Statistics) -> None:
        self.form.merge(into, self._partial(r, c, *self._entries(r, c), self.known[0].at(r, c)))

    def add_norms_wanted(self, r: range, c: range, into: Statistics) -> None:
        """This block's part in d loss / d normalizers."""
        normalizers, statistics, wanted = (part.at(r, c) for part in self.known)
        logits, scores = self._entries(r, c)
        with torch.enable_grad():
            leaves = [x.detach().requires_grad_() for x in values(normalizers)]
            found = self._partial(r, c, logits, scores, named(self.work.norm_rules, leaves, normalizers.shape))
        outputs, weights = _weighted(self.form.reductions, found, statistics, wanted)
        for total, grad in zip(
            values(into), torch.autograd.grad(outputs, leaves, weights, allow_unused=True), strict=True
        ):
            if grad is not None:
                total.add_(grad)

    def add_grads(self, r: range, c: range, grads: Sequence[Tensor | None]) -> None:
        """This block's part in d loss / d tensors."""
        normalizers, statistics, wanted, norms_wanted = (part.at(r, c) for part in self.known)
        leaves = tuple(
            x.detach().requires_grad_() if grad is not None else x for x, grad in zip(self.tensors, grads, strict=True)
        )
        block = NormalizedBlock(self.work, self.start, leaves, self.known)
        with torch.enable_grad():
            logits, scores = block._entries(r, c)
            first = norms_of(self.form, block.target, logits, scores)
            second = block._partial(r, c, logits, scores, normalizers)
        outputs, weights = _weighted(self.work.norm_rules, first, normalizers, norms_wanted)
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
        similarity = self.work.space.similarity(rows[r.start : r.stop], cols[c.start : c.stop])
        logits = self.form.shifted(log_scale.exp() * similarity.to(log_scale.dtype), bias)
        return logits, self.target.scores(*self._place(r, c), logits)

    def _partial(
        self, r: range, c: range, logits: Tensor, scores: Scores | None, normalizers: Statistics
    ) -> Statistics:
        return self.form.partial(
            logits, known_block(self.target, *self._place(r, c), logits, scores, normalizers), normalizers
        )

    def _place(self, r: range, c: range) -> tuple[range, range]:
        return moved(r, self.origin[0]), moved(c, self.origin[1])


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


def values(statistics: Statistics) -> list[Tensor]:
    return [*statistics.rows.values(), *statistics.cols.values()]


def named(names: Iterable[str], values: Sequence[Tensor], shape: tuple[int, int]) -> Statistics:
    """The reverse of `values`."""
    half = len(values) // 2
    return Statistics(dict(zip(names, values[:half], strict=True)), dict(zip(names, values[half:], strict=True)), shape)
