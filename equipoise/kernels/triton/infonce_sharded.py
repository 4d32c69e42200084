"""The fused contrast (`infonce.py`) of rows that are here with columns that come by in parts
(`kernels/sharding/columns.py`).

A part's log-sums are those of its block of the matrix; log-sums add up over parts like over tiles. Once they are whole,
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


def fused_in_parts(rows: Tensor, cols: Tensor, log_scale: Tensor, form: CrossEntropy, columns: Columns) -> Tensor:
    """The loss, float32, of points whose similarity is the inner product and whose row i matches column i."""
    plan = PLAN if rows.dtype == torch.bfloat16 else PLAN.split()
    points = rows.contiguous(), cols.contiguous()
    return _FusedParts.apply(*points, log_scale, SHARES[form.direction], plan, columns)  # type: ignore[no-untyped-call]


class ShardInfoNCE(FusedInfoNCE):
    """A block of a contrast: rows that are here, and columns of which the first is number `start`."""

    def __init__(
        self, points: tuple[Tensor, Tensor], log_scale: Tensor, shares: tuple[float, float], plan: Plan,
        columns: Columns, start: int,
    ):  # fmt: skip
        super().__init__(*points, log_scale, shares, plan)
        self.whole, self.own = columns.shape, start == columns.first_row

    def _match(self) -> float:
        return self.shares[0] / self.whole[0] + self.shares[1] / self.whole[1] if self.own else 0.0

    def _above(self, sums: Tensor, share: float) -> Tensor:
        """As for all columns at once; every row and every column has a match, here or elsewhere."""
        return sums - (math.log2(share / self.whole[0]) if share else -math.inf)


class _FusedParts(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, rows: Tensor, cols: Tensor, log_scale: Tensor, shares: tuple[float, float], plan: Plan,
        columns: Columns,
    ) -> Tensor:  # fmt: skip
        by_row = rows.new_full((len(rows),), -math.inf, dtype=torch.float32)

        def visit(start: int, come: Sequence[Tensor]) -> list[Tensor]:
            sums = ShardInfoNCE((rows, come[0]), log_scale, shares, plan, columns, start).sums()
            torch.logaddexp2(by_row, sums[0], out=by_row)
            return [sums[1] / LOG2_E]

        with torch.autocast(rows.device.type, enabled=False), torch.cuda.device_of(rows):
            by_col = columns.round((cols,), (), visit, [LOG_SUM_EXP])[0] * LOG2_E
            ctx.save_for_backward(rows, cols, log_scale, by_row, by_col)
            ctx.parts = shares, plan, columns
            mine = ShardInfoNCE((rows, cols), log_scale, shares, plan, columns, columns.first_row).loss(by_row, by_col)
            return columns.total(columns.share * mine)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        rows, cols, log_scale, by_row, by_col = ctx.saved_tensors
        shares, plan, columns = ctx.parts
        for_rows, for_scale = torch.zeros_like(rows, dtype=torch.float32), torch.zeros_like(log_scale)

        def visit(start: int, come: Sequence[Tensor]) -> list[Tensor]:
            part = ShardInfoNCE((rows, come[0]), log_scale, shares, plan, columns, start)
            u, v, t = part.grads((by_row, come[1]), upstream[0].float(), (True, True, True))
            assert u is not None
            assert v is not None
            assert t is not None
            for_rows.add_(u)
            for_scale.add_(t)
            return [v.float()]

        with torch.autocast(rows.device.type, enabled=False), torch.cuda.device_of(rows):
            [for_cols] = columns.round((cols,), (by_col,), visit, [SUM])
        points = ((columns.averaged * g).to(x.dtype) for g, x in ((for_rows, rows), (for_cols, cols)))
        return *points, columns.total(for_scale), None, None, None
