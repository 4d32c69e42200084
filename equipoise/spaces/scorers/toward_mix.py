"""Every row against its own mix with every column: what m²-Mix's proof contrasts, as a space of its own.

Oh et al. 2023, "Geodesic Multi-Modal Mixup for Robust Fine-Tuning", App. D, Eq. 8.

    s(u, v) = s_of(u, m_λ(u, v))

u, v [d] points of the space `of`; λ the row's share. A mix lies on a geodesic, so how close it is to its end follows
from how long that is, and no mix is ever made (`Space.part_way`): never N × N × d. Not symmetric: rows are the anchors.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from equipoise.spaces.space import Space
from equipoise.types import UserError


@dataclass(frozen=True)
class PartWay(Space):
    of: Space
    lam: float
    dim: int = field(default=None, kw_only=True)  # type: ignore[assignment]  # that of the space itself

    def __post_init__(self) -> None:
        if not self.of.has_geodesics:
            raise UserError(f"the space {type(self.of).__name__} has no geodesics to mix along; choose one that has")
        if not 0 <= self.lam <= 1:
            raise UserError(f"lam must lie between 0 and 1, not {self.lam}")
        object.__setattr__(self, "dim", self.of.dim)

    def project(self, vectors: Tensor) -> Tensor:
        return self.of.project(vectors)

    def similarity(self, rows: Tensor, cols: Tensor) -> Tensor:
        return self.of.part_way(rows, cols, self.lam)

    @property
    def range(self) -> tuple[float, float]:
        return self.of.range
