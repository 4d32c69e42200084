"""The product of m spheres in n dimensions each (oblique manifold), with the inner product or the geodesic distance.

Sun & Li 2024, "Analyzing the Impact of Learnable Softmax Temperature in Contrastive Visual-Textual Alignment Systems",
§2.3 (iii, iv), Table 1, App. J.

    project(x): m contiguous parts x_k of n numbers, each x_k/‖x_k‖
    inner      s(u, v) = Σ_k ⟨u_k, v_k⟩ = ⟨u, v⟩         ∈ [-m, m]      no metric: the triangle inequality is relaxed
    geodesic   s(u, v) = -√Σ_k arccos²⟨u_k, v_k⟩         ∈ [-π√m, 0]    a metric

u, v [n·m] flat, of norm √m, so an inner-product or L2 index serves them unchanged. The paper's Table 1 prints [0, mπ]
for the geodesic distance; the longest is √(m π²) = π√m, which its formula gives, so that is stated here. PS(d, 1) with
the inner product is the sphere. Geodesics run on each sphere by itself and are the same for both similarities.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import ClassVar

import torch
from torch import Generator, Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from equipoise.settings.bounds import bounded
from equipoise.spaces import pairwise, sphere_math
from equipoise.spaces.space import Space
from equipoise.spaces.sphere import SMALLEST_NORM
from equipoise.spaces.spread import geodesic_spread
from equipoise.types import UserError

DISTANCES = ("inner", "geodesic")


@dataclass(frozen=True)
class ProductSphere(Space):
    cites: ClassVar[tuple[str, ...]] = ("sun2024temperature", "absil2006oblique")
    has_geodesics: ClassVar[bool] = True

    n: int = bounded(64, 1, 2**20)  # dimensions of each sphere
    m: int = bounded(8, 1, 2**20)  # spheres
    distance: str = "inner"  # or "geodesic"
    dim: int = field(default=None, kw_only=True)  # type: ignore[assignment]  # n·m; may be given, and must be that

    def __post_init__(self) -> None:
        if self.n < 2:
            raise UserError(f"n is {self.n}; each sphere of a product needs n >= 2 dimensions")
        if self.m < 1:
            raise UserError(f"m is {self.m}; a product needs m >= 1 spheres")
        if self.distance not in DISTANCES:
            raise UserError(f"distance must be one of {', '.join(DISTANCES)}, not {self.distance!r}")
        if self.dim not in (None, self.n * self.m):
            raise UserError(f"dim is {self.dim}, but n·m = {self.n}·{self.m} = {self.n * self.m}; leave dim out")
        object.__setattr__(self, "dim", self.n * self.m)

    def project(self, vectors: Tensor) -> Tensor:
        return F.normalize(self._parts(vectors), dim=-1, eps=SMALLEST_NORM).flatten(-2)

    def similarity(self, rows: Tensor, cols: Tensor) -> Tensor:
        return rows @ cols.T if self.distance == "inner" else -pairwise.arcs(rows, cols, self.m)

    @property
    def range(self) -> tuple[float, float]:
        return (-float(self.m), float(self.m)) if self.distance == "inner" else (-math.pi * math.sqrt(self.m), 0.0)

    @property
    def factors(self) -> int:
        return self.m

    @property
    def reach(self) -> float:
        return float(self.m) if self.distance == "inner" else math.sqrt(self.m)

    @cached_property
    def spread(self) -> float:
        return math.sqrt(self.m / self.n) if self.distance == "inner" else geodesic_spread(self.n, self.m)

    def similarity_to_mix(self, rows: Tensor, cols: Tensor, lam: float) -> Tensor:
        if self.distance == "geodesic":
            return (1 - lam) * self.similarity(rows, cols)
        spheres = zip(rows.chunk(self.m, 1), cols.chunk(self.m, 1), strict=True)
        parts = (checkpoint(_cosines, u, v, 1 - lam, use_reentrant=False) for u, v in spheres)
        return reduce(torch.add, parts)

    def exp(self, point: Tensor, tangent: Tensor) -> Tensor:
        return sphere_math.exp(self._parts(point), self._parts(tangent)).flatten(-2)

    def log(self, point: Tensor, other: Tensor) -> Tensor:
        return sphere_math.log(self._parts(point), self._parts(other)).flatten(-2)

    def tangent(self, point: Tensor, vector: Tensor) -> Tensor:
        return sphere_math.tangent(self._parts(point), self._parts(vector)).flatten(-2)

    def geodesic_distance(self, u: Tensor, v: Tensor) -> Tensor:
        return sphere_math.norm(sphere_math.angle(self._parts(u), self._parts(v)))

    def sample(self, count: int, generator: Generator | None = None) -> Tensor:
        return sphere_math.sample((count, self.m, self.n), generator).flatten(-2)

    def _parts(self, vectors: Tensor) -> Tensor:
        """[..., n·m] as [..., m, n]."""
        return vectors.unflatten(-1, (self.m, self.n))


def _cosines(u: Tensor, v: Tensor, part: float) -> Tensor:
    """cos of this part of the angles between every row and every column of one sphere."""
    return torch.cos(part * pairwise.arcs(u, v, 1))
