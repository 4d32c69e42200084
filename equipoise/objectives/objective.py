"""What every objective answers. It sees points and the batch they came from, never the model or the ranks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from torch import Tensor

from equipoise.heads import HeadConfig
from equipoise.spaces import Space
from equipoise.types import Batch, Embeddings, Loss


class Objective(ABC):
    @property
    @abstractmethod
    def needs(self) -> tuple[str, ...]:
        """The roles of `Embeddings` the model must fill."""

    @property
    def trains(self) -> tuple[str, ...]:
        """Those of them that a gradient flows back into."""
        return self.needs

    @property
    def divisible(self) -> bool:
        """Whether all it does with points is to `contrast` two roles, row i of one with row i of the other: then it may
        be given a part of the batch, and `contrast` sees to the rest (`kernels/sharding/context.py`)."""
        return False

    @property
    def views(self) -> tuple[str, ...]:
        """What the data must make of each sample beside its image and caption (`data/sample_views.py`)."""
        return ()

    @property
    def heads(self) -> Mapping[str, HeadConfig]:
        """What the model needs for these roles beside towers and readouts, by names of their own."""
        return {}

    @property
    def learned_bias(self) -> float | None:
        """Where a bias of the logits starts that the model is to learn; None where there is none."""
        return None

    @property
    def weighs_pairs(self) -> bool:
        """Whether it counts pairs by the weights that a batch brings (`targets/weighted.py`)."""
        return False

    @property
    def mixes(self) -> bool:
        """Whether it goes part of the way from one point to another, for which the space must have geodesics."""
        return False

    def prepared(self, batch: Batch) -> Batch:
        """The batch as the model is to read it, where the objective changes pixels: a process's part of it, whole
        before it is cut into micro-batches."""
        return batch

    @abstractmethod
    def __call__(
        self,
        embeddings: Embeddings,
        batch: Batch | None = None,
        *,
        log_scale: Tensor | float,
        space: Space,
        bias: Tensor | float | None = None,
    ) -> Loss: ...
