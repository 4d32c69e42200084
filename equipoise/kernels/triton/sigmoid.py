"""The sigmoid loss on inner products at the speed of matrix products, as `infonce.py` has InfoNCE;
`sigmoid_kernels.py`.

No row or column has to be known as a whole: the forward sweep keeps one number per tile, and the backward sweep nothing
of the forward one. Costs are those of InfoNCE, 8N²d.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from equipoise.forms import Sigmoid
from equipoise.kernels.tiling import blocks
from equipoise.kernels.triton.infonce import FusedInfoNCE, Sides, both_sides
from equipoise.kernels.triton.launch_config import PLAN, Plan, Tile
from equipoise.kernels.triton.recompute import recomputed

SIGMOID_PLAN = replace(PLAN, gradient=Tile(warps=8))  # with four warps numbers would not fit the registers


def fused_sigmoid(
    rows: Tensor,
    cols: Tensor,
    log_scale: Tensor,
    bias: Tensor,
    form: Sigmoid,
    plan: Plan | None = None,
    weights: Tensor | None = None,
) -> Tensor:
    """The loss, float32, of points whose similarity is the inner product and whose row i matches column i."""
    plan = plan or (SIGMOID_PLAN if rows.dtype == torch.bfloat16 else SIGMOID_PLAN.split())
    bias = bias if form.learned else torch.full_like(bias, form.bias)
    return recomputed(partial(FusedSigmoid, plan=plan, weights=both_sides(weights)), rows, cols, log_scale, bias)


class FusedSigmoid(FusedInfoNCE):
    def __init__(
        self, rows: Tensor, cols: Tensor, log_scale: Tensor, bias: Tensor, plan: Plan, weights: Sides | None = None
    ):
        super().__init__(rows, cols, log_scale, (0.5, 0.5), plan, weights)
        self.numbers = log_scale, bias
        self.bias = bias.detach().float()

    def sums(self) -> tuple[Tensor, ...]:
        tile, total = self.plan.statistics, self.scale.new_zeros((), dtype=torch.float64)
        down, across = self.plan.sweep(self.m)
        buffer = self._buffer(down, across)
        for r, c in blocks(self.n, self.m, down, across):
            parts = self._numbers(-(-len(r) // tile.rows) * -(-len(c) // tile.cols))
            self._launch("statistics", tile, r, c, buffer, self.bias, *self._weights_of(r, c), parts, **self._weighted)
            total = total + parts.double().sum()
        return (total,)

    def loss(self, *sums: Tensor) -> Tensor:
        hits = self.paired() * self.scale + self.bias
        hits = hits if self.weights is None else hits * self.weights[0]
        return ((sums[0] - hits.double().sum()) / self.n).float()

    def _known(self, sums: tuple[Tensor, ...]) -> Any:
        return ()

    def _gradient(self, r: range, c: range, stored: Tensor, buffer: Tensor | None, known: Any) -> Tensor:
        tile = self.plan.gradient
        parts = self._numbers(2, -(-len(r) // tile.rows) * -(-len(c) // tile.cols))
        place = stored.stride(1), r.start, c.start, 1 / self.n
        arguments = self.bias, *self._weights_of(r, c), stored[0], stored[-1], parts, *place
        self._launch("gradient", tile, r, c, buffer, *arguments, PRODUCTS=self.products, **self._weighted)
        return parts.sum(1)

    def _weights_of(self, r: range, c: range) -> Sides:
        """Weights of a chunk's rows and columns; anything where there are none, for nobody reads it."""
        if self.weights is None:
            return self.bias, self.bias
        return self.weights[0][r.start : r.stop], self.weights[1][c.start : c.stop]

    @property
    def _weighted(self) -> dict[str, bool]:
        return {"WEIGHTED": self.weights is not None}

    def _kernels(self) -> Any:
        from equipoise.kernels.triton import sigmoid_kernels

        return sigmoid_kernels
