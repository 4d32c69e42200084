"""What every space answers. Points are flat vectors of `dim` numbers, so any vector index can hold them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Space(ABC):
    dim: int = 512

    @abstractmethod
    def project(self, vectors: Tensor) -> Tensor:
        """Vectors [..., d] to the nearest points of the space [..., d]; leaves points where they are."""

    @abstractmethod
    def similarity(self, rows: Tensor, cols: Tensor) -> Tensor:
        """Points [R, d] and [C, d] to [R, C]; larger is closer, without temperature."""

    @property
    @abstractmethod
    def range(self) -> tuple[float, float]:
        """Smallest and largest similarity two points can have."""
