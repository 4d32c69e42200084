"""The fused contrast (`infonce.py`) of a process's rows with shards of columns (`kernels/sharding/columns.py`).

A shard's log-sums are those of its block of the matrix; log-sums add up over shards as over tiles. Once they are whole,
the gradient of a block needs nothing but them and the block's points. Matches lie in one block alone: that of a
process's rows with its own columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from equipoise.forms import CrossEntropy
from equipoise.forms.cross_entropy import SHARES
from equipoise.forms.form import LOG_SUM_EXP, SUM
from equipoise.kernels.sharding.columns import Columns
from equipoise.kernels.triton.infonce import LOG2_E, FusedInfoNCE, Sides
from equipoise.kernels.triton.launch_config import PLAN, Plan


def fused_infonce_sharded(
    rows: Tensor, cols: Tensor, log_scale: Tensor, form: CrossEntropy, columns: Columns, weights: Tensor | None = None
) -> Tensor:
    """The loss, float32, of points whose similarity is the inner product and whose row i matches column i; `weights` of
    all pairs, those of other processes too."""
    plan = PLAN if rows.dtype == torch.bfloat16 else PLAN.split()
    points = rows.contiguous(), cols.contiguous()
    settings = SHARES[form.direction], plan, columns, None if weights is None else weights.float()
    return _ShardedInfoNCE.apply(*points, log_scale, settings)  # type: ignore[no-untyped-call]


Settings = tuple[tuple[float, float], Plan, Columns, Tensor | None]  # shares, plan, columns and weights


class ShardInfoNCE(FusedInfoNCE):
    """A block of a contrast: this process's rows, and columns of which the first is number `start`."""

    def __init__(self, points: Sides, log_scale: Tensor, settings: Settings, start: int):
        shares, plan, columns, weights = settings
        places = zip((columns.first_row, start), points, strict=True)
        own = None if weights is None else tuple(weights[first : first + len(x)] for first, x in places)
        super().__init__(*points, log_scale, shares, plan, own)  # type: ignore[arg-type]
        self.whole, self.own = columns.shape, start == columns.first_row

    def _match(self) -> Tensor:
        size = self.shares[0] / self.whole[0] + self.shares[1] / self.whole[1] if self.own else 0.0
        match = self._numbers(self.n).fill_(size)
        return match if self.weights is None else match * self.weights[0]

    def _above(self, sums: tuple[Tensor, ...], side: int) -> Tensor:
        """Every row and column has a match, in this block or in another."""
        return self._lowered(sums[side], side, self.whole[side])


class _ShardedInfoNCE(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, cols: Tensor, log_scale: Tensor, settings: Settings) -> Tensor:
        columns = settings[2]
        by_row = rows.new_full((len(rows),), -math.inf, dtype=torch.float32)

        def on_block(start: int, shard: Sequence[Tensor]) -> list[Tensor]:
            sums = ShardInfoNCE((rows, shard[0]), log_scale, settings, start).sums()
            torch.logaddexp2(by_row, sums[0], out=by_row)
            return [sums[1] / LOG2_E]

        with torch.autocast(rows.device.type, enabled=False), torch.cuda.device_of(rows):
            by_col = columns.for_each_shard((cols,), (), on_block, [LOG_SUM_EXP])[0] * LOG2_E
            ctx.save_for_backward(rows, cols, log_scale, by_row, by_col)
            ctx.settings = settings
            own = ShardInfoNCE((rows, cols), log_scale, settings, columns.first_row).loss(by_row, by_col)
            return columns.all_reduce(columns.share * own)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        rows, cols, log_scale, by_row, by_col = ctx.saved_tensors
        settings: Settings = ctx.settings
        columns = settings[2]
        for_rows, for_scale = torch.zeros_like(rows, dtype=torch.float32), torch.zeros_like(log_scale)

        def on_block(start: int, shard: Sequence[Tensor]) -> list[Tensor]:
            block = ShardInfoNCE((rows, shard[0]), log_scale, settings, start)
            u, v, t = block.grads((by_row, shard[1]), upstream[0].float(), (True, True, True))
            assert u is not None
            assert v is not None
            assert t is not None
            for_rows.add_(u)
            for_scale.add_(t)
            return [v.float()]

        with torch.autocast(rows.device.type, enabled=False), torch.cuda.device_of(rows):
            [for_cols] = columns.for_each_shard((cols,), (by_col,), on_block, [SUM])
        points = ((columns.grad_factor * g).to(x.dtype) for g, x in ((for_rows, rows), (for_cols, cols)))
        return *points, columns.all_reduce(for_scale), None
