"""InfoNCE by Euclidean distances, as `infonce.py` has it for inner products.

    ∂u_i = exp(t) Σ_j w_ij (v_j - u_i),   w = g/‖u - v‖

Weights are stored a chunk at a time (bfloat16, or two for float32 points), their sums come from the same kernel
(`euclidean_kernels.py`), and the library multiplies.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from equipoise.forms import CrossEntropy
from equipoise.forms.cross_entropy import SHARES
from equipoise.kernels.triton.infonce import FusedInfoNCE, both_sides
from equipoise.kernels.triton.launch_config import PLAN, Plan, Tile
from equipoise.kernels.triton.recompute import recomputed

GRADIENT_TILE = Tile(warps=8)  # with four warps numbers would not fit the registers


def fused_euclidean(
    rows: Tensor,
    cols: Tensor,
    log_scale: Tensor,
    form: CrossEntropy,
    plan: Plan | None = None,
    weights: Tensor | None = None,
) -> Tensor:
    """The loss, float32, of points whose similarity is minus their Euclidean distance."""
    plan, shares = plan or plan_for(rows.dtype), SHARES[form.direction]
    work = partial(FusedEuclidean, shares=shares, plan=plan, weights=both_sides(weights))
    return recomputed(work, rows, cols, log_scale)


def plan_for(dtype: torch.dtype) -> Plan:
    plan = replace(PLAN, gradient=GRADIENT_TILE)
    return plan if dtype == torch.bfloat16 else plan.split()


class FusedEuclidean(FusedInfoNCE):
    def __init__(self, rows: Tensor, cols: Tensor, log_scale: Tensor, **settings: Any):
        centred = rows.dtype == torch.float32  # pairs of halves keep 17 bits: better of differences than of places
        self.centre = cols.mean(0) if centred else cols.new_zeros(())
        points = (rows - self.centre, cols - self.centre) if centred else (rows, cols)
        super().__init__(*points, log_scale, **settings)
        self.squares = tuple(torch.linalg.vector_norm(x, dim=1, dtype=torch.float32).square_() for x in points)
        self.points = rows, cols

    def paired(self) -> Tensor:
        u, v = (x[: self.matches].float() for x in self.points)
        return -torch.linalg.vector_norm(u - v, dim=1)

    def _known(self, sums: tuple[Tensor, ...]) -> Any:
        self.along = torch.zeros_like(sums[0]), torch.zeros_like(sums[1])  # Σ_j w_ij and Σ_i w_ij
        return super()._known(sums)

    def _gradient(self, r: range, c: range, stored: Tensor, buffer: Tensor | None, known: Any) -> Tensor:
        tile = self.plan.gradient
        tiles = -(-len(r) // tile.rows), -(-len(c) // tile.cols)
        along = self._numbers(tiles[1], len(r)), self._numbers(tiles[0], len(c))
        parts = self._numbers(tiles[0] * tiles[1])
        sides = known[0][r.start : r.stop], known[1][c.start : c.stop]
        place = stored.stride(1), r.start, c.start, known[2][r.start : r.stop]
        self._launch("gradient", tile, r, c, buffer, *sides, stored[0], stored[-1], *along, parts, *place)
        for total, part, numbers in zip(self.along, along, (r, c), strict=True):
            total[numbers.start : numbers.stop] += part.sum(0)
        return parts.sum()[None]

    def _finished(self, sums: Tensor, side: int, numbers: range) -> Tensor:
        """Σ_j w_ij v_j to Σ_j w_ij (v_j - u_i), in place."""
        here = slice(numbers.start, numbers.stop)
        own = (x[here].split(self.plan.chunk_rows) for x in (self.along[side], self.points[side]))
        for chunk, weight, points in zip(sums.split(self.plan.chunk_rows), *own, strict=True):
            chunk.addcmul_(weight[:, None], points.float() - self.centre.float(), value=-1)
        return sums

    def _kernel(
        self, name: str, tile: Tile, r: range, c: range, buffer: Tensor | None, cut: dict[str, Any]
    ) -> tuple[Any, tuple[Tensor, ...]]:
        from equipoise.kernels.triton import euclidean_kernels

        deep = max(16, min(tile.deep, 1 << (self.d - 1).bit_length()))
        cut |= {"D": self.d, "PRODUCTS": self.products, "BK": deep, "num_stages": tile.stages}
        sources = (self.rows, r), (self.cols, c), (self.squares[0], r), (self.squares[1], c)
        return getattr(euclidean_kernels, f"{name}_of_points"), tuple(x[at.start : at.stop] for x, at in sources)
