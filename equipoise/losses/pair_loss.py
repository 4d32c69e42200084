"""Any objective as a loss of features: the base of all losses here.

    forward(image_features, text_features, logit_scale, logit_bias=None, output_dict=False, *, weights=None, ...)

image_features, text_features [N, d] points of `space`, row i of both one pair; logit_scale exp(t), as open_clip hands
it; weights [N] of pairs; further tensors by keyword with a row per pair: roles that the objective needs (`regions`,
`image_view2`, ...), or side data that its target or guide reads (`caption`, `label`, `image_vectors`, ...).
With `output_dict` the terms as they are weighted in the total, `..._loss` each: their sum is the loss.

Where a process group of several ranks is up, features are this rank's shard of the batch, and the loss is that of the
whole batch (`shared_batch.py`).
"""

from __future__ import annotations

from typing import TypedDict

import torch
from torch import Tensor, nn

from equipoise.data.keep.weights import PAIR_WEIGHT
from equipoise.kernels import Scoring
from equipoise.losses.checks import Given, as_scalar
from equipoise.losses.run_position import RunPosition
from equipoise.losses.shared_batch import LOCAL, check_exchange, require_agreement, shared_loss
from equipoise.losses.space_by_name import check_space, space_for
from equipoise.objectives import Objective
from equipoise.spaces import Space
from equipoise.types import Embeddings, Loss, UserError


class Settings(TypedDict, total=False):
    """What every loss takes beside its own settings."""

    space: str | Space  # a space, or its name: dimensions are then those of the features
    project: bool  # whether features are projected onto the space first, for models that do not
    exchange: str  # how several ranks share the work (`shared_batch.py`); "local": each its own loss
    steps: int  # of the run, for schedules; 0: not known
    epoch_steps: int
    seed: int  # of random draws, the same on every rank


class PairLoss(nn.Module):
    def __init__(
        self,
        objective: Objective,
        *,
        space: str | Space = "sphere",
        project: bool = False,
        exchange: str = "auto",
        steps: int = 0,
        epoch_steps: int = 0,
        seed: int = 0,
    ):
        super().__init__()
        check_space(space)
        check_exchange(exchange, objective)
        self.objective, self.space, self.projects, self.exchange = objective, space, project, exchange
        self.position = RunPosition(steps, epoch_steps, seed)
        self._looked = False  # at what must be waited for on a GPU: mistakes are there from the start

    def forward(
        self,
        image_features: Tensor,
        text_features: Tensor,
        logit_scale: Tensor | float,
        logit_bias: Tensor | float | None = None,
        output_dict: bool = False,
        *,
        weights: Tensor | None = None,
        **more: Tensor,
    ) -> Tensor | dict[str, Tensor]:
        more = more if weights is None else {**more, PAIR_WEIGHT: weights}
        given = Given(image_features, text_features, logit_scale, more, self.space, self.projects)
        return self.answer(self.loss(self.objective, given, logit_bias), logit_bias, output_dict)

    def project(self, features: Tensor) -> Tensor:
        """Vectors [..., d] to points of the space: what a model's features must be, in training and in use."""
        return space_for(self.space, features.shape[-1]).project(features)

    def similarity(self, u: Tensor, v: Tensor) -> Tensor:
        """How close points [N, d] are to points [M, d] in the space: [N, M], larger is closer."""
        return space_for(self.space, u.shape[-1]).similarity(u, v)

    @property
    def made_roles(self) -> tuple[str, ...]:
        """Roles that the loss makes itself (`make_roles`)."""
        return ()

    def make_roles(self, embeddings: Embeddings) -> dict[str, Tensor]:
        """The points of `made_roles`, from this rank's."""
        return {}

    def remember(self, embeddings: Embeddings) -> None:
        """Store something of the whole batch for the next ones; in training alone."""

    def loss(self, objective: Objective, given: Given, logit_bias: Tensor | float | None) -> Loss:
        """The loss of the whole batch, by an objective, of what this rank was given."""
        self._require_sound(objective, given, logit_bias)
        if self.training:
            self.position.advance()
        bias = None if objective.learned_bias is None else 0.0 if logit_bias is None else logit_bias
        scoring = Scoring(
            space=given.where,
            log_scale=as_scalar("logit_scale", given.logit_scale).log(),
            bias=None if bias is None else as_scalar("logit_bias", bias),
        )
        with torch.autocast(given.image_features.device.type, enabled=False):  # sums of exponentials want float32
            points = given.points()
            mine = Embeddings.of({**points, **self.make_roles(Embeddings.of(points))})
            loss, whole = shared_loss(objective, mine, given.side, scoring, self.position.moment, self.exchange)
        if self.training:
            self.remember(whole)
        return loss

    def answer(self, loss: Loss, logit_bias: Tensor | float | None, output_dict: bool) -> Tensor | dict[str, Tensor]:
        """The total, or the weighted terms by name. A softmax does not see a bias, but DDP waits for its gradient."""
        unseen = self.objective.learned_bias is None and isinstance(logit_bias, Tensor)
        nothing = 0 * logit_bias.sum() if unseen and isinstance(logit_bias, Tensor) else None
        if not output_dict:
            return loss.total if nothing is None else loss.total + nothing
        terms = {f"{name}_loss": term for name, term in loss.weighted().items()}
        if nothing is not None:
            first = next(iter(terms))
            terms[first] = terms[first] + nothing
        return terms

    def _require_sound(self, objective: Objective, given: Given, logit_bias: Tensor | float | None) -> None:
        """Raises UserError on all ranks: those that have no mistake would wait for ever for one that has."""
        problem = None
        try:
            given.check(objective, made=self.made_roles, first=not self._looked)
            if logit_bias is not None:
                given.scalar("logit_bias", logit_bias)  # also where it is not seen: it may be meant as something else
        except UserError as error:
            problem = error
        if self.exchange != LOCAL:
            require_agreement(given.sizes, problem)
        if problem is not None:
            raise problem
        self._looked = True
