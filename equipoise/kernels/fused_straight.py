"""InfoNCE by straight distances, as `fused.py` has it for inner products.

    ∂u_i = exp(t) Σ_j w_ij (v_j - u_i),   w = g/‖u - v‖

Weights are stored a chunk at a time (bfloat16, or two for float32 points), their sums come from the same kernel
(`straight_tiles.py`), and the library multiplies.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from equipoise.forms import CrossEntropy
from equipoise.forms.cross_entropy import SHARES
from equipoise.kernels.blocks import blocks
from equipoise.kernels.fused import Work, fused_by
from equipoise.kernels.fused_plan import PLAN, Plan, Tile
from equipoise.kernels.products import add_product
from equipoise.kernels.tiles import straight_tiles

GRADIENT_TILE = Tile(warps=8)  # with four warps numbers would not fit the registers


def fused_straight(
    rows: Tensor, cols: Tensor, log_scale: Tensor, form: CrossEntropy, plan: Plan | None = None
) -> Tensor:
    """The loss, float32, of points whose similarity is minus their Euclidean distance."""
    work = partial(Straight, shares=SHARES[form.direction], plan=plan or plan_for(rows.dtype))
    return fused_by(work, rows, cols, log_scale)


def plan_for(dtype: torch.dtype) -> Plan:
    plan = replace(PLAN, gradient=GRADIENT_TILE)
    return plan if dtype == torch.bfloat16 else plan.split()


class Straight(Work):
    def __init__(self, rows: Tensor, cols: Tensor, log_scale: Tensor, shares: tuple[float, float], plan: Plan):
        moved = rows.dtype == torch.float32  # pairs of halves keep 17 bits: better of differences than of places
        self.centre = cols.mean(0) if moved else cols.new_zeros(())
        points = (rows - self.centre, cols - self.centre) if moved else (rows, cols)
        super().__init__(*points, log_scale, shares, plan)
        self.squares = tuple(torch.linalg.vector_norm(x, dim=1, dtype=torch.float32).square_() for x in points)
        self.points = rows, cols

    def paired(self) -> Tensor:
        u, v = (x[: self.matches].float() for x in self.points)
        return -torch.linalg.vector_norm(u - v, dim=1)

    def grads(
        self, by_row: Tensor, by_col: Tensor, upstream: Tensor, needed: tuple[bool, ...]
    ) -> tuple[Tensor | None, ...]:
        down, across = min(self.plan.chunk_rows, self.n), min(self.plan.chunk_cols, self.m)
        stored = self.rows.new_empty(1 if self.products == 1 else 2, down, -(-across // 8) * 8)
        above = self._above(by_row, self.shares[0]), self._above(by_col, self.shares[1])
        factor, for_scale = upstream * self.scale, []
        for_rows = torch.empty_like(self.points[0]) if needed[0] else None
        col_sums = self._numbers(self.m, self.d) if needed[1] else None
        along_rows, along_cols = torch.zeros_like(by_row), torch.zeros_like(by_col)
        row_sums = self._numbers(down, self.d)
        for r, c in blocks(self.n, self.m, down, across):
            along, part = self._weights(r, c, stored, above)
            for_scale.append(part)
            along_rows[r.start : r.stop] += along[0].sum(0)
            along_cols[c.start : c.stop] += along[1].sum(0)
            w = stored[:, : len(r), : len(c)]
            if for_rows is not None:
                band = row_sums[: len(r)]
                add_product(band, w, self._part(self.cols, c), fresh=c.start == 0)
                if c.stop == self.m:
                    self._less_own(band, along_rows[r.start : r.stop], self.points[0][r.start : r.stop])
                    torch.mul(band, factor, out=for_rows[r.start : r.stop])
            if col_sums is not None:
                add_product(col_sums[c.start : c.stop], w.mT, self._part(self.rows, r), fresh=r.start == 0)
        del stored, row_sums
        for_cols = None
        if col_sums is not None:
            self._less_own(col_sums, along_cols, self.points[1])
            for_cols = col_sums.mul_(factor).to(self.points[1].dtype)
        return for_rows, for_cols, (torch.cat(for_scale).sum() * upstream).to(self.log_scale) if needed[2] else None

    def _weights(
        self, r: range, c: range, stored: Tensor, above: tuple[Tensor, Tensor]
    ) -> tuple[tuple[Tensor, Tensor], Tensor]:
        """w of a chunk into `stored`; its sums by row and by column, a tile at a time, and its parts in ∂t."""
        tile = self.plan.gradient
        tiles = -(-len(r) // tile.rows), -(-len(c) // tile.cols)
        along = self._numbers(tiles[1], len(r)), self._numbers(tiles[0], len(c))
        parts = self._numbers(tiles[0] * tiles[1])
        sides = above[0][r.start : r.stop], above[1][c.start : c.stop]
        place = stored.stride(1), r.start, c.start, self._match()
        self._launch("gradient", tile, r, c, None, *sides, stored[0], stored[-1], *along, parts, *place)
        return along, parts

    def _less_own(self, sums: Tensor, along: Tensor, points: Tensor) -> None:
        """Σ_j w_ij v_j to Σ_j w_ij (v_j - u_i), in place."""
        for some, weight, own in zip(*(x.split(self.plan.chunk_rows) for x in (sums, along, points)), strict=True):
            some.addcmul_(weight[:, None], own.float() - self.centre.float(), value=-1)

    def _found(
        self, name: str, tile: Tile, r: range, c: range, buffer: Tensor | None, cut: dict[str, Any]
    ) -> tuple[Any, tuple[Tensor, ...]]:
        deep = max(16, min(tile.deep, 1 << (self.d - 1).bit_length()))
        cut |= {"D": self.d, "PRODUCTS": self.products, "BK": deep, "num_stages": tile.stages}
        found = tuple(x[at.start : at.stop] for x, at in
                      ((self.rows, r), (self.cols, c), (self.squares[0], r), (self.squares[1], c)))  # fmt: skip
        return getattr(straight_tiles(), f"{name}_of_points"), found
