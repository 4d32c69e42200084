"""The unit sphere with the inner product: the space of CLIP.

Radford et al. 2021, "Learning Transferable Visual Models From Natural Language Supervision", Fig. 3.

    project(x) = x / ‖x‖        similarity(u, v) = ⟨u, v⟩ ∈ [-1, 1]

The zero vector has no direction: it stays at zero, with a bounded gradient, instead of becoming NaN. Geodesics are
great circles (`sphere_math.py`); interpolating along them is the geodesic mix of Oh et al. 2023. `product_sphere` is
several of these side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from equipoise.spaces import pairwise, sphere_math
from equipoise.spaces.space import Space
from equipoise.types import UserError

SMALLEST_NORM = 1e-6  # below it a vector is treated as zero; the gradient is at most its inverse


@dataclass(frozen=True)
class Sphere(Space):
    cites: ClassVar[tuple[str, ...]] = ("radford2021clip",)
    has_geodesics: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.dim < 2:
            raise UserError(f"a sphere needs dim >= 2, not {self.dim}")

    def project(self, vectors: Tensor) -> Tensor:
        return F.normalize(vectors, dim=-1, eps=SMALLEST_NORM)

    def similarity(self, rows: Tensor, cols: Tensor) -> Tensor:
        return rows @ cols.T

    @property
    def range(self) -> tuple[float, float]:
        return (-1.0, 1.0)

    @cached_property
    def spread(self) -> float:
        return self.dim**-0.5

    def similarity_to_mix(self, rows: Tensor, cols: Tensor, lam: float) -> Tensor:
        return torch.cos((1 - lam) * pairwise.arcs(rows, cols, 1))  # what is left of the arc between them

    def exp(self, point: Tensor, tangent: Tensor) -> Tensor:
        return sphere_math.exp(point, tangent)

    def log(self, point: Tensor, other: Tensor) -> Tensor:
        return sphere_math.log(point, other)

    def tangent(self, point: Tensor, vector: Tensor) -> Tensor:
        return sphere_math.tangent(point, vector)

    def geodesic_distance(self, u: Tensor, v: Tensor) -> Tensor:
        return sphere_math.angle(u, v)

    def sample(self, count: int, generator: Generator | None = None) -> Tensor:
        return sphere_math.sample((count, self.dim), generator)
