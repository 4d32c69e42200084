"""Targets softened by a guide: most of the share stays with the match, some goes where the guide sees similarity.

Gao et al. 2024 (SoftCLIP), Eq. 8-9; with a teacher's similarities (`guide.across`), Li et al. 2021 (ALBEF), Eq. 6.

    p̃_i = (1 - β) y_i + β softmax_j(g_ij) by row        p̃'_j = (1 - β) y_j + β softmax_i(g'_ij) by column

y [N, M] the hard target `of`; g, g' the guide's scores (`guide.py`): of regions and of tags in the paper.
A second guide may be mixed in: g = γ g₁ + (1 - γ) g₂, so that the softmax stays one softmax; the paper mixes whole
losses, which `objectives.SoftCLIP` does. Everything is kept as logarithms: log p̃ = log β + g - lse off the matches,
finite however small β or the share is. Off the matches p̃ renormalised does not depend on β at all.
The row of a sample without a guide is y_i, and so is its column.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import reduce
from typing import ClassVar, NoReturn

import torch
from torch import Tensor

from equipoise.settings.choice import choice, choose_by_name
from equipoise.spaces import Space
from equipoise.targets.duplicates import HARD_TARGETS
from equipoise.targets.guide import GUIDES, Guide, GuideSimilarity
from equipoise.targets.target import COLS, ROWS, SHARED, Gather, HardTarget, Scores, Target, TargetBlock
from equipoise.types import Batch, Embeddings, StepInfo, UserError

LEAST = 1e-6  # of β, at the start of a ramp: a logarithm of 0 would be no number
UNBOUND = "this target must be bound to a batch, for a guide softens it; call target.bind(...) first"


@dataclass(frozen=True)
class Softened(Target):
    cites: ClassVar[tuple[str, ...]] = ("gao2024softclip",)
    soft: ClassVar[bool] = True
    guided: ClassVar[bool] = True

    beta: float = 0.3  # how far it is softened
    of: HardTarget = choice(HARD_TARGETS, "one_hot")  # what is softened
    guide: Guide = choice(GUIDES, "regions_tags")  # what says who is alike
    gamma: float = 1.0  # the first guide's part
    second: Guide = choice(GUIDES, "image_text")  # another guide, for 1 - gamma
    ramp: float = 0.0  # share of the run in which β rises from 0, linearly

    def __post_init__(self) -> None:
        choose_by_name(self)
        if not 0 <= self.ramp <= 1:
            raise UserError(f"ramp must be a share of the run, from 0 to 1, not {self.ramp}")
        if not 0 < self.beta <= 1:
            raise UserError(f"beta must be above 0 and at most 1, not {self.beta}; for 0 use the hard target itself")
        if not 0 <= self.gamma <= 1:
            raise UserError(f"gamma must be from 0 to 1, not {self.gamma}")

    def _guides(self) -> list[tuple[float, Guide]]:
        return [(w, g) for w, g in ((self.gamma, self.guide), (1 - self.gamma, self.second)) if w]

    @property
    def needs(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(role for _, guide in self._guides() for role in guide.needs))

    @property
    def trains(self) -> tuple[str, ...]:
        guides = (guide for _, guide in self._guides() if not guide.stop_gradient)
        return tuple(dict.fromkeys(role for guide in guides for role in guide.needs))

    @property
    def divisible(self) -> bool:  # type: ignore[override]
        """A scale by the share of the match is that of the whole batch, which no shard of it can tell."""
        return self.of.divisible and not any(guide.match_share for _, guide in self._guides())

    @property
    def matches_classes(self) -> bool:
        return self.of.matches_classes

    def bind(self, embeddings: Embeddings, batch: Batch | None, *, log_scale: Tensor | float, space: Space) -> Target:
        hard = self.of.bind(embeddings, batch, log_scale=log_scale, space=space)
        bound = [(w, g.bind(embeddings, batch, log_scale=log_scale, space=space)) for w, g in self._guides()]
        rows, cols = (tuple((weight, pair[side]) for weight, pair in bound) for side in (0, 1))
        return SoftenedBy(self._beta_at(batch), hard, rows, cols)

    def _beta_at(self, batch: Batch | None) -> float:
        return self.beta if batch is None else ramped(self.beta, batch.moment, self.ramp)

    def scores(self, rows: range, cols: range, like: Tensor) -> NoReturn:
        raise UserError(UNBOUND)

    def block(self, rows: range, cols: range, like: Tensor, scores: Scores | None = None) -> NoReturn:
        raise UserError(UNBOUND)


def ramped(beta: float, moment: StepInfo, ramp: float, start: float = 0.0) -> float:
    """β at a step: next to nothing until the share `start` of the run, then rising over the share `ramp` of it."""
    if not ramp:
        return beta
    return beta * min(1.0, max(LEAST, (moment.progress - start) / ramp))


Weighted = tuple[tuple[float, GuideSimilarity], ...]


@dataclass(frozen=True)
class SoftenedBy(Target):
    """The target of one batch: β, the hard target, and the weighted guides of rows and of columns."""

    soft: ClassVar[bool] = True
    guided: ClassVar[bool] = True

    beta: float
    of: HardTarget
    rows: Weighted
    cols: Weighted

    def sized(self, n_rows: int, n_cols: int) -> Target:
        known = len(self.rows[0][1].left), len(self.cols[0][1].right)
        if known != (n_rows, n_cols):
            whom = f"{known[0]} samples" if known[0] == known[1] else f"{known[0]} rows and {known[1]} columns"
            raise UserError(f"the guide knows {whom}, but there are {n_rows} rows and {n_cols} columns")
        return replace(self, of=self.of.sized(n_rows, n_cols))

    @property
    def divisible(self) -> bool:  # type: ignore[override]
        return self.of.divisible

    def whole(self, gather: Gather, n_rows: int, n_cols: int) -> Target:
        rows, cols = (tuple((weight, guide.whole(gather)) for weight, guide in side) for side in (self.rows, self.cols))
        return replace(self, of=self.of.whole(gather, n_rows, n_cols), rows=rows, cols=cols)

    def tensors(self) -> tuple[Tensor, ...]:
        return tuple(tensor for _, guide in (*self.rows, *self.cols) for tensor in guide.tensors())

    def sides(self) -> tuple[str, ...]:
        return (ROWS, COLS, SHARED) * (len(self.rows) + len(self.cols))  # of a guide: left, right and log_scale

    def on(self, tensors: tuple[Tensor, ...], origin: tuple[int, int] = (0, 0)) -> SoftenedBy:
        parts = [tensors[start : start + 3] for start in range(0, len(tensors), 3)]
        guides = zip((*self.rows, *self.cols), parts, strict=True)
        rebound = [(weight, guide.on(part, origin)) for (weight, guide), part in guides]
        return replace(self, rows=tuple(rebound[: len(self.rows)]), cols=tuple(rebound[len(self.rows) :]))

    def scores(self, rows: range, cols: range, like: Tensor) -> Scores:
        by_row, by_col = (
            reduce(torch.add, (weight * guide.block(rows, cols) for weight, guide in guides))
            for guides in (self.rows, self.cols)
        )
        return Scores(by_row, by_col, self.of.positive(rows, cols, like.device), known=self.known(rows, cols))

    def known(self, rows: range, cols: range) -> tuple[Tensor, Tensor] | None:
        """Bool [R] and [C]: rows and columns that every guide knows; None where that is all of them."""
        sides = [[guide.known for _, guide in side if guide.known is not None] for side in (self.rows, self.cols)]
        masks = [known for side in sides for known in side]
        if not masks:
            return None
        all_known = torch.ones_like(masks[0])
        by_row, by_col = (reduce(torch.logical_and, side, all_known) for side in sides)
        return by_row[rows.start : rows.stop], by_col[cols.start : cols.stop]

    def block(self, rows: range, cols: range, like: Tensor, scores: Scores | None = None) -> TargetBlock:
        assert scores is not None
        assert scores.row_norms is not None
        assert scores.col_norms is not None
        hard = self.of.block(rows, cols, like)
        logs = (
            self._mixed(hard.by_row, scores.by_row - scores.row_norms[:, None]),
            self._mixed(hard.by_col, scores.by_col - scores.col_norms),
        )
        if scores.known is not None:
            plain = hard.log_shares(like)
            logs = (
                torch.where(scores.known[0][:, None], logs[0], plain[0]),
                torch.where(scores.known[1], logs[1], plain[1]),
            )
        return TargetBlock(logs=logs, scores=scores, hard=hard)

    def _mixed(self, hard: Tensor | None, log_guide: Tensor) -> Tensor:
        soft = math.log(self.beta) + log_guide
        if hard is None or self.beta == 1:
            return soft
        return _log_sum(hard, soft, self.beta)


def _log_sum(hard: Tensor, soft: Tensor, beta: float) -> Tensor:
    """log((1 - β) hard + exp(soft)), where most of `hard` is zero."""
    matches = hard > 0
    log_hard = torch.log(torch.where(matches, hard, 1)) + math.log1p(-beta)
    return torch.where(matches, torch.logaddexp(log_hard, soft), soft)
