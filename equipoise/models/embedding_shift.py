"""Embedding shift: images and texts moved towards each other, or apart, along the line between their means.

Liang et al. 2022, "Mind the Gap: Understanding the Modality Gap in Multi-modal Contrastive Representation Learning",
§4.2; the baseline ES of Oh et al. 2023, "Geodesic Multi-Modal Mixup for Robust Fine-Tuning", App. A.1.

    g = (mean u - mean v)/‖mean u - mean v‖        u' = project(u - λ g)        v' = project(v + λ g)

u, v [N, d] points of images and texts, g [d] measured once on training data, λ chosen on held-out data
(`evaluation/shift_sweep.py`) and kept as `shift.amount`. λ > 0 closes the gap. On the sphere this is the paper's; on a
product of spheres g is one direction in all of them together, and each sphere is brought back to length 1 by itself;
in Euclidean space nothing is brought back, and λ = ‖mean u - mean v‖/2 closes the gap for good. Sets of vectors have no
mean: UserError. The authors' λ is half of what they call delta. With λ = 0 there is no such part at all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from equipoise.settings.bounds import bounded
from equipoise.spaces import Space
from equipoise.types import UserError

SIGNS = {"image": -1.0, "text": 1.0}


class EmbeddingShift(nn.Module):
    """Shift of points by a fixed amount along a measured direction."""

    direction: Tensor  # [d], g; zero where it was never measured

    @dataclass(frozen=True)
    class Config:
        amount: float = bounded(0.0, -1e6, 1e6)  # λ; 0: points stay where they are

        def __post_init__(self) -> None:
            if not math.isfinite(self.amount):
                raise UserError(f"amount must be a number, not {self.amount}; 0 shifts nothing")

        @property
        def cites(self) -> tuple[str, ...]:
            return ("liang2022gap",) if self.amount else ()

        def build(self, space: Space) -> EmbeddingShift | None:
            if not self.amount:
                return None
            require_vectors(space)
            return EmbeddingShift(self.amount, torch.zeros(space.dim))

    def __init__(self, amount: float, direction: Tensor):
        super().__init__()
        self.amount = amount
        self.register_buffer("direction", direction)

    def forward(self, points: Tensor, tower: str, space: Space) -> Tensor:
        return shifted(points, self.direction, self.amount, tower, space)

    def require_measured(self) -> None:
        if not self.direction.any():
            raise UserError(
                f"shift.amount is {self.amount}, but there is no direction to shift along before a model is trained; "
                "leave it out, and use `equipoise shift MODEL DATA --out FOLDER` on what was trained"
            )


def shifted(points: Tensor, direction: Tensor, amount: float, tower: str, space: Space) -> Tensor:
    """Shifted points [..., d] of one tower; the same tensor where the amount is 0."""
    if not amount:
        return points
    return space.project(points + SIGNS[tower] * amount * direction.to(points))


def require_vectors(space: Space) -> None:
    if not space.has_geodesics:
        raise UserError(
            f"points of the space {type(space).__name__} have no mean, so they cannot be shifted along one; "
            "embedding shift is for sphere, product_sphere and euclidean"
        )
