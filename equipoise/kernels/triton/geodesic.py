"""InfoNCE by geodesic distances on a product of spheres, as `infonce.py` has it for inner products.

    ∂u_k = exp(t) · the part across u_k of Σ_j w_kj v_kj       one w, and one product w v and wᵀu, for every sphere

Weights of all spheres are stored a chunk at a time (bfloat16, or two for float32 points; `geodesic_kernels.py`), and
the library multiplies. w_kj (v_kj - cos θ u_k) summed over j is the sum's part across u_k, so nothing else is kept, and
an error of w is one of that difference, and vanishes with the distance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from equipoise.forms import CrossEntropy
from equipoise.forms.cross_entropy import SHARES
from equipoise.kernels.triton.infonce import FusedInfoNCE, both_sides
from equipoise.kernels.triton.launch_config import PLAN, Plan, Tile
from equipoise.kernels.triton.matmul import add_batched
from equipoise.kernels.triton.recompute import recomputed
from equipoise.ops.split_bf16 import split_bf16
from equipoise.spaces import ProductSphere

STORED = 3 << 25  # weights at a time, of all spheres
TILE = Tile(rows=64, cols=64)  # two numbers of every logit are on the chip at once, three where points meet
AT_ONCE = 8192  # points that are widened to float32 together


def fused_geodesic(
    rows: Tensor,
    cols: Tensor,
    log_scale: Tensor,
    form: CrossEntropy,
    space: ProductSphere,
    plan: Plan | None = None,
    weights: Tensor | None = None,
) -> Tensor:
    """The loss, float32, of points whose similarity is minus their geodesic distance in `space`."""
    plan = plan or plan_for(space, rows.dtype)
    shares = SHARES[form.direction]
    work = partial(FusedGeodesic, space=space, shares=shares, plan=plan, weights=both_sides(weights))
    return recomputed(work, rows, cols, log_scale)


def plan_for(space: ProductSphere, dtype: torch.dtype) -> Plan:
    numbers = STORED // space.factors // (1 if dtype == torch.bfloat16 else 2)
    rows = 1 << ((numbers.bit_length() - 1) // 2)
    return replace(PLAN, statistics=TILE, gradient=TILE, chunk_rows=rows, chunk_cols=max(1, numbers // rows))


class FusedGeodesic(FusedInfoNCE):
    def __init__(self, rows: Tensor, cols: Tensor, log_scale: Tensor, space: ProductSphere, **settings: Any):
        self.space, self.spheres = space, space.factors
        super().__init__(rows, cols, log_scale, **settings)
        self.rows, self.cols = (self._halves_by_sphere(x) for x in (rows, cols))
        self.inverses = self._inverses(rows), self._inverses(cols)

    def paired(self) -> Tensor:
        pairs = zip(*(x[: self.matches].split(AT_ONCE) for x in self.points), strict=True)
        return -torch.cat([self.space.geodesic_distance(u.float(), v.float()) for u, v in pairs])

    def _stored(self, down: int, across: int) -> Tensor:
        return super()._stored(self.spheres * down, across).flatten(1)

    def _chunk(self, stored: Tensor, r: range, c: range) -> Sequence[Tensor]:
        """w [spheres, R, C]."""
        return [w[:, :, : len(c)] for w in self._whole_rows(stored, r, c)]

    def _whole_rows(self, stored: Tensor, r: range, c: range) -> list[Tensor]:
        shape = self.spheres, len(r), -(-len(c) // 8) * 8
        return [x[: math.prod(shape)].view(shape) for x in stored]

    def _gradient(self, r: range, c: range, stored: Tensor, buffer: Tensor | None, known: Any) -> Tensor:
        tile, w = self.plan.gradient, self._whole_rows(stored, r, c)
        parts = self._numbers(-(-len(r) // tile.rows) * -(-len(c) // tile.cols))
        sides = known[0][r.start : r.stop], known[1][c.start : c.stop]
        place = w[0].stride(1), r.start, c.start, known[2][r.start : r.stop]
        self._launch("gradient", tile, r, c, buffer, *sides, w[0], w[-1], parts, *place)
        return parts.sum()[None]

    def _sums(self, count: int) -> Tensor:
        """[spheres, R, n], and for float32 points the sums of their lower halves beside those of the higher."""
        return self._numbers(self.spheres, count, self.rows.shape[1] // self.spheres)

    def _add(self, sums: Tensor, g: Sequence[Tensor], others: Tensor, fresh: bool) -> None:
        """Add the products of every sphere; for float32 points high·(high | low), one product, and low·high."""
        others = others.unflatten(1, (self.spheres, -1)).transpose(0, 1)
        add_batched(sums, g[:1], [others], fresh=fresh)
        if self.products == 3:
            wide = self.d // self.spheres
            add_batched(sums[:, :, :wide], g[1:], [others[:, :, :wide]])

    def _finished(self, sums: Tensor, side: int, numbers: range) -> Tensor:
        """The parts of the sums across their points."""
        across, wide = self._numbers(len(numbers), self.d), self.d // self.spheres
        for start in range(0, len(numbers), AT_ONCE):
            chunk = slice(start, min(start + AT_ONCE, len(numbers)))
            own = slice(numbers.start + chunk.start, numbers.start + chunk.stop)
            whole = sums[:, chunk].transpose(0, 1).unflatten(2, (-1, wide)).sum(2)  # of the two halves
            points = self.points[side][own].float().unflatten(1, (self.spheres, -1))
            unit = points * self.inverses[side][:, own].T[:, :, None]
            whole.addcmul_(unit, (unit * whole).sum(2, keepdim=True), value=-1)
            across[chunk] = whole.flatten(1)
        return across

    def _halves_by_sphere(self, points: Tensor) -> Tensor:
        """`split_bf16` of every sphere, with its two halves side by side."""
        spheres = points.unflatten(1, (self.spheres, -1)).flatten(0, 1)
        return split_bf16(spheres).unflatten(0, (-1, self.spheres)).flatten(1)

    def _inverses(self, points: Tensor) -> Tensor:
        """1/‖·‖ of every sphere [spheres, R], 0 for zero vectors."""
        lengths = torch.linalg.vector_norm(points.unflatten(1, (self.spheres, -1)), dim=2, dtype=torch.float32)
        return torch.where(lengths > 0, 1 / lengths, 0).T.contiguous()

    def _kernel(
        self, name: str, tile: Tile, r: range, c: range, buffer: Tensor | None, cut: dict[str, Any]
    ) -> tuple[Any, tuple[Any, ...]]:
        from equipoise.kernels.triton import geodesic_kernels

        deep = self.d // self.spheres
        cut |= {"SPHERES": self.spheres, "DEEP": deep, "PRODUCTS": self.products, "num_stages": tile.stages}
        cut |= {"BK": max(16, min(tile.deep, 1 << (deep - 1).bit_length()))}
        points = self.rows[r.start : r.stop], self.cols[c.start : c.stop]
        inverses = self.inverses[0][:, r.start : r.stop], self.inverses[1][:, c.start : c.stop]
        return getattr(geodesic_kernels, f"{name}_of_points"), (*points, *inverses, self.n, self.m)
