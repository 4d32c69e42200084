"""InfoNCE by distances, Euclidean or geodesic on a product of spheres, as `fused.py` has it for inner products.

    ∂u_i = exp(t) Σ_j w_ij (v_j - q_ij u_i)       one w, and one product w v and wᵀu, for every sphere

A straight distance is one sphere's with q = 1. Weights w are stored a chunk at a time (bfloat16, or two for float32
points), their sums with q come from the same kernel (`distance_tiles.py`), and the library multiplies.
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
from equipoise.kernels.fused import Contrast
from equipoise.kernels.fused_plan import PLAN, Plan, Tile
from equipoise.kernels.products import batched_product
from equipoise.kernels.recomputed import recomputed
from equipoise.kernels.tiles import distance_tiles
from equipoise.spaces import ProductSphere, Space

STORED = 1 << 25  # weights of arcs at a time
ARC_TILE = Tile(rows=64, cols=64)  # two numbers of every logit are on the chip at once, three where points meet
STRAIGHT_TILE = Tile(warps=8)  # of gradients: with four warps numbers would not fit the registers
AT_ONCE = 2048  # pairs whose distance is computed by itself


def fused_distance(
    rows: Tensor, cols: Tensor, log_scale: Tensor, form: CrossEntropy, space: Space, plan: Plan | None = None
) -> Tensor:
    """The loss, float32, of points whose similarity is minus their geodesic distance in `space`."""
    plan = plan or plan_for(space, rows.dtype)
    return recomputed(partial(Distances, shares=SHARES[form.direction], plan=plan, space=space), rows, cols, log_scale)


def plan_for(space: Space, dtype: torch.dtype) -> Plan:
    plan = PLAN if dtype == torch.bfloat16 else PLAN.split()
    if not isinstance(space, ProductSphere):
        return replace(plan, gradient=STRAIGHT_TILE)
    numbers = STORED // space.factors // (1 if dtype == torch.bfloat16 else 2)
    rows = 1 << (numbers.bit_length() // 2)
    return replace(plan, statistics=ARC_TILE, gradient=ARC_TILE, chunk_rows=rows, chunk_cols=max(1, numbers // rows))


class Distances(Contrast):
    def __init__(
        self, rows: Tensor, cols: Tensor, log_scale: Tensor, shares: tuple[float, float], plan: Plan, space: Space
    ):
        self.space, self.arc = space, isinstance(space, ProductSphere)
        self.spheres = space.factors if isinstance(space, ProductSphere) else 1
        moved = (
            not self.arc and rows.dtype == torch.float32
        )  # halves keep 17 bits: better of differences than of places
        self.centre = cols.mean(0) if moved else cols.new_zeros(())
        points = (rows - self.centre, cols - self.centre) if moved else (rows, cols)
        super().__init__(*points, log_scale, shares, plan)
        self.squares = self._squares(points[0]), self._squares(points[1])
        self.points = rows, cols

    def paired(self) -> Tensor:
        pairs = zip(*(x[: self.matches].split(AT_ONCE) for x in self.points), strict=True)
        return -torch.cat([self.space.geodesic_distance(u.float(), v.float()) for u, v in pairs])

    def grads(self, sums: tuple[Tensor, ...], upstream: Tensor, needed: tuple[bool, ...]) -> tuple[Tensor | None, ...]:
        down, across = min(self.plan.chunk_rows, self.n), min(self.plan.chunk_cols, self.m)
        halves = 1 if self.products == 1 else 2
        stored = self.rows.new_empty(halves, self.spheres * down * (-(-across // 8) * 8))
        above, factor = self._known(sums), upstream * self.scale
        for_numbers = self._numbers(1).zero_()
        for_rows = torch.empty_like(self.points[0]) if needed[0] else None
        col_sums = torch.zeros_like(self.points[1], dtype=torch.float32) if needed[1] else None
        row_sums = self._numbers(down, self.d)
        for r, c in blocks(self.n, self.m, down, across):
            weights, along, part = self._weights(r, c, stored, above)
            for_numbers += part
            if for_rows is not None:
                band = row_sums[: len(r)]
                self._add(band.zero_() if c.start == 0 else band, weights, self.cols, c, along[0], self.points[0], r)
                if c.stop == self.m:
                    torch.mul(band, factor, out=for_rows[r.start : r.stop])
            if col_sums is not None:
                into = col_sums[c.start : c.stop]
                self._add(into, [w.mT for w in weights], self.rows, r, along[1], self.points[1], c)
        del stored, row_sums
        for_cols = None if col_sums is None else col_sums.mul_(factor).to(self.points[1].dtype)
        return for_rows, for_cols, *self._of_numbers(for_numbers * upstream, needed[2:])

    def _weights(
        self, r: range, c: range, stored: Tensor, above: tuple[Tensor, Tensor]
    ) -> tuple[list[Tensor], tuple[Tensor, Tensor], Tensor]:
        """w [spheres, R, C] of a chunk, its sums with q [spheres, R] and [spheres, C], its part in ∂t."""
        tile, wide = self.plan.gradient, -(-len(c) // 8) * 8
        tiles = -(-len(r) // tile.rows), -(-len(c) // tile.cols)
        weights = [x[: self.spheres * len(r) * wide].view(self.spheres, len(r), wide) for x in stored]
        along = self._numbers(self.spheres, tiles[1], len(r)), self._numbers(self.spheres, tiles[0], len(c))
        parts = self._numbers(tiles[0] * tiles[1])
        sides = above[0][r.start : r.stop], above[1][c.start : c.stop]
        target = (self._numbers(len(r), wide),) * 2 if self.arc else (weights[0], weights[-1])
        place = wide, r.start, c.start, self._match()
        self._launch("gradient", tile, r, c, None, *sides, *target, *along, parts, *place)
        if self.arc:
            self._arcs(tile, r, c, target[0], weights, along, wide)
        return [w[:, :, : len(c)] for w in weights], (along[0].sum(1), along[1].sum(1)), parts.sum()

    def _arcs(
        self, tile: Tile, r: range, c: range, given: Tensor, weights: list[Tensor], along: tuple[Tensor, ...], wide: int
    ) -> None:
        down, across = -(-len(r) // tile.rows), -(-len(c) // tile.cols)
        cut: dict[str, Any] = {"EVEN": not len(r) % tile.rows and not len(c) % tile.cols, "BM": tile.rows}
        cut |= {"BN": tile.cols, "GROUP": tile.group, "num_warps": tile.warps}
        _, found = self._found("gradient", tile, r, c, None, cut)
        del cut["ARC"]
        kernel = distance_tiles().arc_weights[(down * across, self.spheres)]
        kernel(*found, given, weights[0], weights[-1], *along, wide, len(r), len(c), **cut)

    def _add(
        self, into: Tensor, weights: list[Tensor], of: Tensor, at: range, along: Tensor, points: Tensor, here: range
    ) -> None:
        """into [R, d] += Σ_j w_ij (v_j - q_ij u_i), sphere by sphere."""
        others = [self._by_sphere(x) for x in self._part(of, at)]
        own = self._by_sphere(points[here.start : here.stop] - self.centre)
        self._by_sphere(into).add_(batched_product(weights, others)).sub_(along[:, :, None] * own)

    def _by_sphere(self, points: Tensor) -> Tensor:
        """[R, d] as [spheres, R, n]."""
        return points.unflatten(1, (self.spheres, -1)).transpose(0, 1)

    def _squares(self, points: Tensor) -> Tensor:
        """‖·‖² of every sphere [R, spheres]."""
        parts = points.unflatten(1, (self.spheres, -1))
        return torch.linalg.vector_norm(parts, dim=2, dtype=torch.float32).square_()

    def _found(
        self, name: str, tile: Tile, r: range, c: range, buffer: Tensor | None, cut: dict[str, Any]
    ) -> tuple[Any, tuple[Tensor, ...]]:
        deep = max(16, min(tile.deep, 1 << (self.d // self.spheres - 1).bit_length()))
        cut |= {"D": self.d, "PRODUCTS": self.products, "BK": deep, "num_stages": tile.stages}
        cut |= {"SPHERES": self.spheres, "ARC": self.arc}
        found = tuple(x[at.start : at.stop] for x, at in
                      ((self.rows, r), (self.cols, c), (self.squares[0], r), (self.squares[1], c)))  # fmt: skip
        return getattr(distance_tiles(), f"{name}_of_points"), found
