"""The objective protocol. An objective sees points and the batch they came from, never the model or the ranks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from torch import Tensor

from equipoise.heads import HeadConfig
from equipoise.kernels import Scoring
from equipoise.kernels.plausible import require_plausible
from equipoise.spaces import Space
from equipoise.types import Batch, Embeddings, Loss


class Objective(ABC):
    @property
    @abstractmethod
    def needs(self) -> tuple[str, ...]:
        """The roles of `Embeddings` the model must fill."""

    @property
    def trains(self) -> tuple[str, ...]:
        """The roles among `needs` that a gradient flows back into."""
        return self.needs

    @property
    def shown(self) -> tuple[str, ...]:
        """Roles by the EMA of the weights (`momentum_...`) that heads look at while they make theirs, in the batch's
        `common`."""
        return ()

    @property
    def divisible(self) -> bool:
        """Whether all it does with points is to `contrast` two roles, row i of one with row i of the other: then it may
        be given a shard of the batch (`kernels/sharding/context.py`)."""
        return False

    @property
    def views(self) -> tuple[str, ...]:
        """Views that the data must make of each sample beside its image and caption (`data/sample_views.py`)."""
        return ()

    @property
    def heads(self) -> Mapping[str, HeadConfig]:
        """Heads, by name, that the model needs for these roles beside towers and readouts."""
        return {}

    @property
    def learned_bias(self) -> float | None:
        """The initial value of a bias of the logits that the model learns; None where it learns none."""
        return None

    @property
    def weighs_pairs(self) -> bool:
        """Whether it counts pairs by the weights that a batch brings (`targets/weighted.py`). A subclass has a formula
        of its own, and says so itself."""
        return False

    @property
    def matches_classes(self) -> bool:
        """Whether samples of one class are never each other's negatives, so that it suits data of classes."""
        return False

    @property
    def mixes(self) -> bool:
        """Whether it mixes points, for which the space must have geodesics."""
        return False

    def prepared(self, batch: Batch) -> Batch:
        """The batch as the model is to read it, where the objective changes pixels: a process's shard, before it is cut
        into micro-batches."""
        return batch

    def taught(self, batch: Batch) -> Batch:
        """The batch as the EMA of the weights is to read it, for an objective that it teaches."""
        return batch

    def check_batches(self, size: int, micro: int) -> None:  # noqa: B027 (most can be trained with any)
        """Raise UserError for batches of a size, or micro-batches (0: none), that it cannot be trained with."""

    def __call__(
        self,
        embeddings: Embeddings,
        batch: Batch | None = None,
        *,
        log_scale: Tensor | float,
        space: Space,
        bias: Tensor | float | None = None,
    ) -> Loss:
        """The loss of points of `space`, whose logits are exp(log_scale)·s, plus `bias` where one is learned. Raises
        UserError for points and scales that cannot be meant; training calls `loss`, which does not look."""
        require_plausible({"image": embeddings.image, "text": embeddings.text}, space, log_scale)
        return self.loss(embeddings, batch, Scoring(space, log_scale, bias))

    @abstractmethod
    def loss(self, embeddings: Embeddings, batch: Batch | None, scoring: Scoring) -> Loss:
        """The formula; every contrast it makes is one of `scoring.contrast`."""
