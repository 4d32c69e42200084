"""A block of a contrast with normalizers: what each of the four passes of `tiled_normalized.py` makes of its tiles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from equipoise.forms.form import LOG_SUM_EXP, Form, Reduction, Statistics, merge
from equipoise.kernels.sharding.columns import Columns
from equipoise.kernels.tiling import blocks, offset
from equipoise.spaces import Scorer
from equipoise.targets import Scores, Target, TargetBlock

GUIDE = "guide"  # the name of a guided target's own normalizers


@dataclass(frozen=True)
class NormalizedWork:
    """What is computed per tile, the side of a tile, and where the columns are."""

    scorer: Scorer
    target: Target
    form: Form
    tile: int
    columns: Columns

    @property
    def norm_reductions(self) -> dict[str, Reduction]:
        names = (*self.form.normalizer_names, *((GUIDE,) if self.target.guided else ()))
        return dict.fromkeys(names, LOG_SUM_EXP)


def block_normalizers(form: Form, target: Target, logits: Tensor, scores: Scores | None) -> Statistics:
    """What a block adds to the normalizers of its rows and columns, the form's and the target's."""
    found = form.normalizers(logits, scores)
    if not target.guided:
        return found
    assert scores is not None
    rows = {**found.rows, GUIDE: torch.logsumexp(scores.by_row, 1)}
    return Statistics(rows, {**found.cols, GUIDE: torch.logsumexp(scores.by_col, 0)}, found.shape)


def target_block(
    target: Target, rows: range, cols: range, like: Tensor, scores: Scores | None, normalizers: Statistics
) -> TargetBlock:
    """The target's block, given the normalizers of its rows and columns."""
    if scores is not None and target.guided:
        scores = scores._replace(row_norms=normalizers.rows[GUIDE], col_norms=normalizers.cols[GUIDE])
    return target.block(rows, cols, like, scores)


class NormalizedBlock:
    """This process's rows against a block of columns, of which the first is number `start`. `known` of both, as many
    as the passes before this one have computed: normalizers, statistics, d loss / d statistics, d loss / d normalizers.
    """

    def __init__(self, work: NormalizedWork, start: int, tensors: tuple[Tensor, ...], known: Sequence[Statistics]):
        self.work, self.form, self.start, self.tensors, self.known = work, work.form, start, tensors, known
        self.origin = work.columns.first_row, start
        self.target = work.target.on(tensors[4:], self.origin)

    def __iter__(self) -> Iterator[tuple[range, range]]:
        return blocks(len(self.tensors[0]), len(self.tensors[1]), self.work.tile)

    def add_normalizers(self, r: range, c: range, into: Statistics) -> None:
        merge(self.work.norm_reductions, into, block_normalizers(self.form, self.target, *self._entries(r, c)))

    def add_statistics(self, r: range, c: range, into: Statistics) -> None:
        self.form.merge(into, self._partial(r, c, *self._entries(r, c), self.known[0].at(r, c)))

    def add_normalizer_grads(self, r: range, c: range, into: Statistics) -> None:
        """Add this tile's part in d loss / d normalizers."""
        normalizers, statistics, stat_grads = (part.at(r, c) for part in self.known)
        logits, scores = self._entries(r, c)
        with torch.enable_grad():
            leaves = [x.detach().requires_grad_() for x in values(normalizers)]
            found = self._partial(r, c, logits, scores, named(self.work.norm_reductions, leaves, normalizers.shape))
        outputs, weights = _weighted(self.form.reductions, found, statistics, stat_grads)
        for total, grad in zip(
            values(into), torch.autograd.grad(outputs, leaves, weights, allow_unused=True), strict=True
        ):
            if grad is not None:
                total.add_(grad)

    def add_grads(self, r: range, c: range, grads: Sequence[Tensor | None]) -> None:
        """Add this tile's part in d loss / d tensors."""
        normalizers, statistics, stat_grads, norm_grads = (part.at(r, c) for part in self.known)
        leaves = tuple(
            x.detach().requires_grad_() if grad is not None else x for x, grad in zip(self.tensors, grads, strict=True)
        )
        block = NormalizedBlock(self.work, self.start, leaves, self.known)
        with torch.enable_grad():
            logits, scores = block._entries(r, c)
            first = block_normalizers(self.form, block.target, logits, scores)
            second = block._partial(r, c, logits, scores, normalizers)
        outputs, weights = _weighted(self.work.norm_reductions, first, normalizers, norm_grads)
        more_outputs, more_weights = _weighted(self.form.reductions, second, statistics, stat_grads)
        needed = [(x, grad) for x, grad in zip(leaves, grads, strict=True) if grad is not None]
        found = torch.autograd.grad(
            [*outputs, *more_outputs], [x for x, _ in needed], [*weights, *more_weights], allow_unused=True
        )
        for (_, total), part in zip(needed, found, strict=True):
            if part is not None:
                total.add_(part)

    def _entries(self, r: range, c: range) -> tuple[Tensor, Scores | None]:
        """The logits and the target's scores of a tile."""
        rows, cols, log_scale, bias = self.tensors[:4]
        similarity = self.work.scorer.similarity(rows[r.start : r.stop], cols[c.start : c.stop])
        logits = self.form.shifted(log_scale.exp() * similarity.to(log_scale.dtype), bias)
        return logits, self.target.scores(*self._place(r, c), logits)

    def _partial(
        self, r: range, c: range, logits: Tensor, scores: Scores | None, normalizers: Statistics
    ) -> Statistics:
        return self.form.statistics(
            logits, target_block(self.target, *self._place(r, c), logits, scores, normalizers), normalizers
        )

    def _place(self, r: range, c: range) -> tuple[range, range]:
        return offset(r, self.origin[0]), offset(c, self.origin[1])


def _weighted(
    reductions: Mapping[str, Reduction], block: Statistics, whole: Statistics, grads: Statistics
) -> tuple[list[Tensor], list[Tensor]]:
    """A block's numbers that require gradients, and d loss / d each of them; `grads` are d loss / d `whole`."""
    outputs, weights = [], []
    for part, total, grad in ((block.rows, whole.rows, grads.rows), (block.cols, whole.cols, grads.cols)):
        for name, reduction in reductions.items():
            if part[name].requires_grad:
                outputs.append(part[name])
                share = (part[name].detach() - total[name]).exp() if reduction is LOG_SUM_EXP else 1
                weights.append(grad[name] * share)
    return outputs, weights


def values(statistics: Statistics) -> list[Tensor]:
    return [*statistics.rows.values(), *statistics.cols.values()]


def named(names: Iterable[str], values: Sequence[Tensor], shape: tuple[int, int]) -> Statistics:
    """Statistics from their values, in the order of `values`."""
    half = len(values) // 2
    return Statistics(dict(zip(names, values[:half], strict=True)), dict(zip(names, values[half:], strict=True)), shape)
