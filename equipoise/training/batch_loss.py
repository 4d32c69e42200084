"""The loss of a batch whose points are spread over several ranks, and what is worth logging of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from torch import Tensor

from equipoise.kernels import Scoring
from equipoise.kernels.finite import NotFinitePoints
from equipoise.kernels.sharding.context import sharded_batch
from equipoise.kernels.sharding.gather import gather_batch, gather_points
from equipoise.kernels.sharding.hard_negatives import sharded_hardness
from equipoise.models.model import Model
from equipoise.objectives import Objective
from equipoise.spaces import Hardness, Space, hardness
from equipoise.training.finite import FiniteCheck, NotFinite
from equipoise.training.settings import EVERYTHING
from equipoise.types import COMMON, Batch, Embeddings, Loss

Means = Callable[[Tensor, Tensor], Hardness]  # mean hardness of all rows among all columns


@dataclass(frozen=True)
class BatchLoss:
    """An objective, and the way (`distributed/loss_sharding.py`) in which it sees the points of all ranks."""

    model: Model
    objective: Objective
    exchange: str
    finite: FiniteCheck

    def __call__(self, roles: Mapping[str, Tensor], batch: Batch) -> Loss:
        """The loss of the whole batch; `roles` and `batch` are this rank's part of it."""
        loss = self._everything(roles, batch) if self.exchange == EVERYTHING else self._divided(roles, batch)
        self.finite.loss(loss)
        return loss

    def _everything(self, roles: Mapping[str, Tensor], batch: Batch) -> Loss:
        gathered = {role: points if role in COMMON else gather_points(points) for role, points in roles.items()}
        whole = Embeddings.of({**gathered, **self.model.recall(self.objective.needs)})
        loss = self._loss(whole, gather_batch(batch))
        self.model.update_memory(whole)
        return replace(loss, facts=partial(_facts, loss, whole, partial(_means, self.model.space)))

    def _divided(self, roles: Mapping[str, Tensor], batch: Batch) -> Loss:
        """No rank sees the whole batch: the objective says `divisible`, so it only contrasts, and has no heads."""
        mine = Embeddings.of(roles)
        with sharded_batch(self.exchange, len(batch)) as parts:
            loss = self._loss(mine, batch)
        return replace(loss, facts=partial(_facts, loss, mine, partial(sharded_hardness, self.model.space, parts)))

    def _loss(self, embeddings: Embeddings, batch: Batch) -> Loss:
        t, bias = self.model.log_scale, self.model.logit_bias
        try:
            return self.objective.loss(embeddings, batch, Scoring(self.model.space, t, bias))
        except NotFinitePoints as problem:  # which row it was tells little about a model that diverged
            raise NotFinite("the loss became nan (points of the model are NaN or infinite)") from problem


def _facts(loss: Loss, embeddings: Embeddings, means: Means) -> dict[str, float]:
    """What the objective logs, and how hard the batch was for the model (`spaces/hard_negatives.py`)."""
    image, text = embeddings.image.detach(), embeddings.text.detach()
    if not len(text) or not len(image):
        return dict(loss.facts())
    by_image, by_text = means(image, text), means(text, image)
    return {
        **loss.facts(),
        "batch/positive": float(by_image.positive),
        "batch/closest_text": float(by_image.closest),
        "batch/closest_image": float(by_text.closest),
        "batch/texts_above": float(by_image.above),
        "batch/images_above": float(by_text.above),
    }


def _means(space: Space, rows: Tensor, cols: Tensor) -> Hardness:
    return Hardness(*(numbers.mean() for numbers in hardness(rows, cols, space=space)))
