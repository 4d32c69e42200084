"""The space protocol. Points are flat vectors of `dim` numbers, so any vector index can hold them.

`similarity` is what training and evaluation need. A space that is a manifold with known geodesics says so
(`has_geodesics`) and answers `exp`, `log`, `tangent` and `geodesic_distance` too; one that has a uniform distribution
answers `sample`. What a space does not have raises UserError.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from torch import Generator, Tensor
from torch.utils.checkpoint import checkpoint

from equipoise.settings.bounds import bounded
from equipoise.spaces.scorer import paired_similarity
from equipoise.types import UserError

DRAWN = 4096  # pairs of points, to estimate a spread


@dataclass(frozen=True)
class Space(ABC):
    has_geodesics: ClassVar[bool] = False

    dim: int = bounded(512, 1, 2**20)  # of its points

    @abstractmethod
    def project(self, vectors: Tensor) -> Tensor:
        """Vectors [..., d] to the nearest points of the space [..., d]; leaves points where they are."""

    @abstractmethod
    def similarity(self, rows: Tensor, cols: Tensor) -> Tensor:
        """Points [R, d] and [C, d] to [R, C]; larger is closer, without logit scale."""

    @property
    @abstractmethod
    def range(self) -> tuple[float, float]:
        """Smallest and largest similarity two points can have."""

    @property
    def factors(self) -> int:
        """The number of equal spaces that this is the product of."""
        return 1

    @property
    def reach(self) -> float:
        """How many times as far similarities reach as those of one of its factors."""
        return float(self.factors)

    @cached_property
    def spread(self) -> float | None:
        """Standard deviation of the similarity of two points drawn uniformly (`spread.py`); None where there is no
        uniform distribution. Estimated to about 1% where a space does not know it."""
        try:
            first, second = (self.sample(DRAWN, torch.Generator().manual_seed(seed)) for seed in (0, 1))
        except UserError:
            return None
        return float(self.pairwise(first, second).std())

    @property
    def start_spread(self) -> float | None:
        """The same of the points that a run starts with."""
        return self.spread

    def pairwise(self, u: Tensor, v: Tensor) -> Tensor:
        """The similarity of each point with the one at its place: [N, d] and [N, d] to [N]."""
        return paired_similarity(self, u, v)

    def similarity_to_mix(self, rows: Tensor, cols: Tensor, lam: float) -> Tensor:
        """The similarity of each row to its mix with each column, the point at `lam` from column (0) to row (1): [R, d]
        and [C, d] to [R, C]. Makes all mixes, those of one row at a time and again for the gradient; spaces with
        a closed form override it."""

        def of_row(row: Tensor, cols: Tensor) -> Tensor:
            return self.similarity(row[None], self.interpolate(row.expand_as(cols), cols, lam))

        return torch.cat([checkpoint(of_row, row, cols, use_reentrant=False) for row in rows])

    def interpolate(self, u: Tensor, v: Tensor, lam: Tensor | float) -> Tensor:
        """The point at `lam` on the geodesic from v (0) to u (1): [..., d]; `lam` a number, or one per point [...]."""
        share = torch.as_tensor(lam, dtype=u.dtype, device=u.device)
        return self.exp(v, share[..., None] * self.log(v, u))

    def exp(self, point: Tensor, tangent: Tensor) -> Tensor:
        """The end of the geodesic from `point` that starts along `tangent` and is as long: [..., d]."""
        raise self._without("geodesics")

    def log(self, point: Tensor, other: Tensor) -> Tensor:
        """The tangent at `point` whose `exp` is `other` [..., d]; the shortest."""
        raise self._without("geodesics")

    def tangent(self, point: Tensor, vector: Tensor) -> Tensor:
        """The part of `vector` along the space at `point` [..., d]."""
        raise self._without("geodesics")

    def geodesic_distance(self, u: Tensor, v: Tensor) -> Tensor:
        """The length of the shortest geodesic between points [..., d]: [...]. A metric, whatever `similarity` is."""
        raise self._without("geodesics")

    def sample(self, count: int, generator: Generator | None = None) -> Tensor:
        """Points [count, d] drawn uniformly from the whole space, in float64."""
        raise self._without("uniform distribution")

    def _without(self, what: str) -> UserError:
        return UserError(f"the space {type(self).__name__} has no {what}; choose one that has, the sphere for instance")
