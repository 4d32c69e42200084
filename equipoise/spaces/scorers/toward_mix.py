"""Similarities of every row with its own mix with every column: what m²-Mix's proof contrasts.

Oh et al. 2023, "Geodesic Multi-Modal Mixup for Robust Fine-Tuning", App. D, Eq. 8.

    s(u, v) = s_space(u, m_λ(u, v))

u, v [d] points of the space; λ the row's share. A mix lies on a geodesic, so how close it is to its end follows from
how long that is, and no mix is ever made (`Space.similarity_to_mix`): never N × N × d. Not symmetric: rows are the
anchors.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from equipoise.spaces.space import Space
from equipoise.types import UserError


@dataclass(frozen=True)
class TowardMix:
    space: Space
    lam: float

    def __post_init__(self) -> None:
        if not self.space.has_geodesics:
            raise UserError(f"the space {type(self.space).__name__} has no geodesics to mix along; choose one that has")
        if not 0 <= self.lam <= 1:
            raise UserError(f"lam must lie between 0 and 1, not {self.lam}")

    @property
    def dim(self) -> int:
        return self.space.dim

    def similarity(self, rows: Tensor, cols: Tensor) -> Tensor:
        return self.space.similarity_to_mix(rows, cols, self.lam)
