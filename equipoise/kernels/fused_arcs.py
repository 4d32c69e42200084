"""InfoNCE by arcs, geodesic distances on a product of spheres, as `fused.py` has it for inner products.

    ∂u_k = exp(t) · the part across u_k of Σ_j w_kj v_kj       one w, and one product w v and wᵀu, for every sphere

Weights of all spheres are stored a chunk at a time (bfloat16, or two for float32 points; `arc_tiles.py`), and the
library multiplies. w_kj (v_kj - cos θ u_k) summed over j is the sum's part across u_k, so nothing else is kept, and an
error of w is one of that difference, and vanishes with the distance.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from equipoise.forms import CrossEntropy
from equipoise.forms.cross_entropy import SHARES
from equipoise.halves import halves
from equipoise.kernels.blocks import blocks
from equipoise.kernels.fused import Work, fused_by
from equipoise.kernels.fused_plan import PLAN, Plan, Tile
from equipoise.kernels.products import add_batched
from equipoise.kernels.tiles import arc_tiles
from equipoise.spaces import ProductSphere

STORED = 1 << 26  # weights at a time, of all spheres
TILE = Tile(rows=64, cols=64)  # two numbers of every logit are on the chip at once, three where points meet
AT_ONCE = 2048  # points that are widened to float32 together


def fused_arcs(
    rows: Tensor, cols: Tensor, log_scale: Tensor, form: CrossEntropy, space: ProductSphere, plan: Plan | None = None
) -> Tensor:
    """The loss, float32, of points whose similarity is minus their geodesic distance in `space`."""
    plan = plan or plan_for(space, rows.dtype)
    return fused_by(partial(Arcs, shares=SHARES[form.direction], plan=plan, space=space), rows, cols, log_scale)


def plan_for(space: ProductSphere, dtype: torch.dtype) -> Plan:
    numbers = STORED // space.factors // (1 if dtype == torch.bfloat16 else 2)
    rows = 1 << ((numbers.bit_length() - 1) // 2)
    return replace(PLAN, statistics=TILE, gradient=TILE, chunk_rows=rows, chunk_cols=max(1, numbers // rows))


class Arcs(Work):
    def __init__(
        self,
        rows: Tensor,
        cols: Tensor,
        log_scale: Tensor,
        shares: tuple[float, float],
        plan: Plan,
        space: ProductSphere,
    ):
        self.space, self.spheres = space, space.factors
        super().__init__(rows, cols, log_scale, shares, plan)
        self.rows, self.cols = (self._halves_by_sphere(x) for x in (rows, cols))
        self.inverses = self._inverses(rows), self._inverses(cols)

    def paired(self) -> Tensor:
        pairs = zip(*(x[: self.matches].split(AT_ONCE) for x in self.points), strict=True)
        return -torch.cat([self.space.geodesic_distance(u.float(), v.float()) for u, v in pairs])

    def grads(
        self, by_row: Tensor, by_col: Tensor, upstream: Tensor, needed: tuple[bool, ...]
    ) -> tuple[Tensor | None, ...]:
        down, across = min(self.plan.chunk_rows, self.n), min(self.plan.chunk_cols, self.m)
        stored = self.rows.new_empty(1 if self.products == 1 else 2, self.spheres * down * (-(-across // 8) * 8))
        above = self._above(by_row, self.shares[0]), self._above(by_col, self.shares[1])
        factor, for_scale = upstream * self.scale, []
        for_rows = torch.empty_like(self.points[0]) if needed[0] else None
        row_sums = self._sums(down)
        col_sums = self._sums(self.m).zero_() if needed[1] else None
        for r, c in blocks(self.n, self.m, down, across):
            weights, part = self._weights(r, c, stored, above)
            for_scale.append(part)
            if for_rows is not None:
                band = row_sums[:, : len(r)]
                self._add(band.zero_() if c.start == 0 else band, weights, self.cols[c.start : c.stop])
                if c.stop == self.m:
                    self._finish(band, self.points[0], self.inverses[0], factor, for_rows, r)
            if col_sums is not None:
                self._add(col_sums[:, c.start : c.stop], [w.mT for w in weights], self.rows[r.start : r.stop])
        del stored, row_sums
        for_cols = None
        if col_sums is not None:
            for_cols = torch.empty_like(self.points[1])
            self._finish(col_sums, self.points[1], self.inverses[1], factor, for_cols, range(self.m))
        return for_rows, for_cols, (torch.cat(for_scale).sum() * upstream).to(self.log_scale) if needed[2] else None

    def _weights(self, r: range, c: range, stored: Tensor, above: tuple[Tensor, Tensor]) -> tuple[list[Tensor], Tensor]:
        """w [spheres, R, C] of a chunk, and its parts in ∂t."""
        tile, wide = self.plan.gradient, -(-len(c) // 8) * 8
        weights = [x[: self.spheres * len(r) * wide].view(self.spheres, len(r), wide) for x in stored]
        parts = self._numbers(-(-len(r) // tile.rows) * -(-len(c) // tile.cols))
        sides = above[0][r.start : r.stop], above[1][c.start : c.stop]
        place = wide, r.start, c.start, self._match()
        self._launch("gradient", tile, r, c, None, *sides, weights[0], weights[-1], parts, *place)
        return [w[:, :, : len(c)] for w in weights], parts

    def _sums(self, count: int) -> Tensor:
        """[spheres, R, n], and for float32 points the sums of their lower halves beside those of the higher."""
        return self._numbers(self.spheres, count, self.rows.shape[1] // self.spheres)

    def _add(self, sums: Tensor, weights: list[Tensor], others: Tensor) -> None:
        """sums += Σ_j w_kj v_kj of every sphere; for float32 points high·(high | low), one product, and low·high."""
        others = others.unflatten(1, (self.spheres, -1)).transpose(0, 1)
        add_batched(sums, weights[0], others)
        if self.products == 3:
            wide = self.d // self.spheres
            add_batched(sums[:, :, :wide], weights[1], others[:, :, :wide])

    def _finish(
        self, sums: Tensor, points: Tensor, inverses: Tensor, factor: Tensor, grads: Tensor, here: range
    ) -> None:
        """The parts of `sums` across the points `here`, times the factor, into the gradients of those."""
        for at in range(here.start, here.stop, AT_ONCE):
            some = slice(at, min(at + AT_ONCE, here.stop))
            of_some = sums[:, at - here.start : some.stop - here.start].transpose(0, 1)
            whole = of_some.unflatten(2, (-1, self.d // self.spheres)).sum(2)  # of the two halves
            unit = points[some].float().unflatten(1, (self.spheres, -1)) * inverses[:, some].T[:, :, None]
            across = whole.addcmul_(unit, (unit * whole).sum(2, keepdim=True), value=-1).flatten(1)
            torch.mul(across, factor, out=grads[some])

    def _halves_by_sphere(self, points: Tensor) -> Tensor:
        """As `halves`, with those of each sphere side by side."""
        return halves(points.unflatten(1, (self.spheres, -1)).flatten(0, 1)).unflatten(0, (-1, self.spheres)).flatten(1)

    def _inverses(self, points: Tensor) -> Tensor:
        """1/‖·‖ of every sphere [spheres, R], 0 for zero vectors."""
        norms = torch.linalg.vector_norm(points.unflatten(1, (self.spheres, -1)), dim=2, dtype=torch.float32)
        return torch.where(norms > 0, 1 / norms, 0).T.contiguous()

    def _found(
        self, name: str, tile: Tile, r: range, c: range, buffer: Tensor | None, cut: dict[str, Any]
    ) -> tuple[Any, tuple[Any, ...]]:
        deep = self.d // self.spheres
        cut |= {"SPHERES": self.spheres, "DEEP": deep, "PRODUCTS": self.products, "num_stages": tile.stages}
        cut |= {"BK": max(16, min(tile.deep, 1 << (deep - 1).bit_length()))}
        points = self.rows[r.start : r.stop], self.cols[c.start : c.stop]
        inverses = self.inverses[0][:, r.start : r.stop], self.inverses[1][:, c.start : c.stop]
        return getattr(arc_tiles(), f"{name}_of_points"), (*points, *inverses, self.n, self.m)
