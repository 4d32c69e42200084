"""A product of spheres with the inner product, for tests of what needs sub-spheres."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from equipoise.spaces import Space


@dataclass(frozen=True)
class Spheres(Space):
    m: int = 4

    def project(self, vectors: Tensor) -> Tensor:
        return F.normalize(vectors.unflatten(-1, (self.m, -1)), dim=-1, eps=1e-6).flatten(-2)

    def similarity(self, rows: Tensor, cols: Tensor) -> Tensor:
        return rows @ cols.T

    @property
    def range(self) -> tuple[float, float]:
        return (-float(self.m), float(self.m))


@dataclass(frozen=True)
class Flat(Space):
    """Closeness is the negative distance: a range without a lower end."""

    def project(self, vectors: Tensor) -> Tensor:
        return vectors

    def similarity(self, rows: Tensor, cols: Tensor) -> Tensor:
        return -torch.cdist(rows, cols, compute_mode="donot_use_mm_for_euclid_dist")

    @property
    def range(self) -> tuple[float, float]:
        return (-torch.inf, 0.0)
