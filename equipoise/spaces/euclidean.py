"""Euclidean space with the ℓ2 distance: no bound on how far apart points can be.

Sun & Li 2024, "Analyzing the Impact of Learnable Softmax Temperature in Contrastive Visual-Textual Alignment Systems",
§2.3 (ii), Table 1.

    project(x) = x        similarity(u, v) = -‖u - v‖ ∈ (-∞, 0]

u, v [d]. Not squared. The range needs no logit scale, but there is no uniform distribution to spread over (Table 1:
"undefined"), so `sample` raises UserError. Geodesics are straight lines.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from equipoise.spaces import pairwise, sphere_math
from equipoise.spaces.space import Space
from equipoise.spaces.spread import gaussian_spread
from equipoise.types import UserError


@dataclass(frozen=True)
class Euclidean(Space):
    cites: ClassVar[tuple[str, ...]] = ("sun2024temperature",)
    has_geodesics: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.dim < 1:
            raise UserError(f"a Euclidean space needs dim >= 1, not {self.dim}")

    def project(self, vectors: Tensor) -> Tensor:
        return vectors

    def similarity(self, rows: Tensor, cols: Tensor) -> Tensor:
        return -pairwise.straight(rows, cols)

    @property
    def range(self) -> tuple[float, float]:
        return (-math.inf, 0.0)

    @property
    def start_spread(self) -> float:
        """Of N(0, I), which readouts make of features of length √w before they are trained."""
        return gaussian_spread(self.dim)

    def similarity_to_mix(self, rows: Tensor, cols: Tensor, lam: float) -> Tensor:
        return (1 - lam) * self.similarity(rows, cols)

    def exp(self, point: Tensor, tangent: Tensor) -> Tensor:
        return point + tangent

    def log(self, point: Tensor, other: Tensor) -> Tensor:
        return other - point

    def tangent(self, point: Tensor, vector: Tensor) -> Tensor:
        return vector

    def geodesic_distance(self, u: Tensor, v: Tensor) -> Tensor:
        return sphere_math.norm(u - v)
