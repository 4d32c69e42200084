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
from equipoise.kernels.triton.infonce import LOG2_E, FusedInfoNCE
from equipoise.kernels.triton.launch_config import PLAN, Plan


def fused_infonce_sharded(
    rows: Tensor, cols: Tensor, log_scale: Tensor, form: CrossEntropy, columns: Columns
) -> Tensor:
    """The loss, float32, of points whose similarity is the inner product and whose row i matches column i."""
    plan = PLAN if rows.dtype == torch.bfloat16 else PLAN.split()
    points = rows.contiguous(), cols.contiguous()
    shares = SHARES[form.direction]
    return _ShardedInfoNCE.apply(*points, log_scale, shares, plan, columns)  # type: ignore[no-untyped-call]


class ShardInfoNCE(FusedInfoNCE):
    """A block of a contrast: this process's rows, and columns of which the first is number `start`."""

    def __init__(
        self, points: tuple[Tensor, Tensor], log_scale: Tensor, shares: tuple[float, float], plan: Plan,
        columns: Columns, start: int,
    ):  # fmt: skip
        super().__init__(*points, log_scale, shares, plan)
        self.whole, self.own = columns.shape, start == columns.first_row

    def _match(self) -> float:
        return self.shares[0] / self.whole[0] + self.shares[1] / self.whole[1] if self.own else 0.0

    def _above(self, sums: Tensor, share: float) -> Tensor:
        """Log2-sums less the log2 of weights; every row and column has a match, in this block or in another."""
        return sums - (math.log2(share / self.whole[0]) if share else -math.inf)


class _ShardedInfoNCE(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, cols: Tensor, log_scale: Tensor, shares: tuple[float, float], plan: Plan,
        columns: Columns,
    ) -> Tensor:  # fmt: skip
        by_row = rows.new_full((len(rows),), -math.inf, dtype=torch.float32)

        def on_block(start: int, shard: Sequence[Tensor]) -> list[Tensor]:
            sums = ShardInfoNCE((rows, shard[0]), log_scale, shares, plan, columns, start).sums()
            torch.logaddexp2(by_row, sums[0], out=by_row)
            return [sums[1] / LOG2_E]

        with torch.autocast(rows.device.type, enabled=False), torch.cuda.device_of(rows):
            by_col = columns.for_each_shard((cols,), (), on_block, [LOG_SUM_EXP])[0] * LOG2_E
            ctx.save_for_backward(rows, cols, log_scale, by_row, by_col)
            ctx.settings = shares, plan, columns
            own = ShardInfoNCE((rows, cols), log_scale, shares, plan, columns, columns.first_row).loss(by_row, by_col)
            return columns.all_reduce(columns.share * own)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        rows, cols, log_scale, by_row, by_col = ctx.saved_tensors
        shares, plan, columns = ctx.settings
        for_rows, for_scale = torch.zeros_like(rows, dtype=torch.float32), torch.zeros_like(log_scale)

        def on_block(start: int, shard: Sequence[Tensor]) -> list[Tensor]:
            block = ShardInfoNCE((rows, shard[0]), log_scale, shares, plan, columns, start)
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
        return *points, columns.all_reduce(for_scale), None, None, None
