"""One optimizer step: embed, compare, differentiate, clip, update."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from equipoise.encoders.batch_norm import leaving_statistics
from equipoise.models.model import Model, evaluating
from equipoise.objectives import Objective
from equipoise.training.batch_loss import BatchLoss, NotFinite
from equipoise.training.batch_norm import prepare_batch_norm
from equipoise.training.checkpoint.distributed_checkpoint import OPTIMIZER, CheckpointReader
from equipoise.training.distributed.loss_sharding import choose_loss_sharding
from equipoise.training.distributed.ranks import Ranks
from equipoise.training.distributed.wrap import broadcast_scale_grads, no_sync, wrap_model
from equipoise.training.ema import EMA
from equipoise.training.freezing import READOUTS, TwoPhase, freeze_all_but, frozen, frozen_norms
from equipoise.training.grad_cache import cached_backward, micro_batches
from equipoise.training.optimizer import learning_rate, make_optimizer
from equipoise.training.settings import Training
from equipoise.types import COMMON, MOMENTUM, Batch, Embeddings, Loss


@dataclass(frozen=True)
class StepResult:
    loss: Loss
    learning_rate: float
    grad_norm: float


class Step:
    """One step of a model; `ranks` says which part of each batch this process holds."""

    def __init__(
        self, model: Model, objective: Objective, settings: Training, device: torch.device, ranks: Ranks | None = None
    ):
        self.model, self.objective, self.settings = model, objective, settings
        self.taught = settings.taught(objective.needs)
        self.needs = [role for role in objective.needs if role not in self.taught]
        self.autocast = settings.autocast(device)
        for tower in (model.image_encoder, model.text_encoder):
            tower.recompute_activations(settings.recompute_activations)
        self.ranks = ranks or Ranks()
        way = choose_loss_sharding(settings, objective, self.ranks, model.space.dim)
        self.compare = BatchLoss(model, objective, way)
        if model.regions is not None and "regions" not in objective.trains:
            model.regions.requires_grad_(False)  # else DDP waits for a gradient that never comes
        probing = settings.probe.steps_of(settings.steps)
        freeze_all_but(model, settings.trains, *((READOUTS,) if probing else ()))
        self.kept = frozen_norms(model, settings.keep_statistics or probing > 0)
        self._keep_statistics()
        prepare_batch_norm(model, settings, self.ranks)
        self.module = wrap_model(model, self.ranks, settings.parallel, device)
        self.parts = (
            TwoPhase(model, READOUTS, settings.trains, probing) if probing else None
        )  # FSDP has made parameters new
        self.optimizer = make_optimizer(model, settings)
        self.forward = torch.compile(self.module) if settings.compile else self.module

    def __call__(self, batch: Batch, number: int, average: EMA | None = None) -> StepResult:
        """Step `number` from 1; `average` is that of the weights so far, for an objective that it teaches."""
        rate = learning_rate(number - 1, self.settings)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["speed"]
        self.optimizer.zero_grad(set_to_none=True)
        resting = self.parts.resting(number) if self.parts else []
        with frozen(resting, spared=self.ranks.world == 1):
            loss = self._backward(batch, average)
        broadcast_scale_grads(self.model, self.ranks)
        grad_norm = _total(nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip_norm or math.inf))
        if not math.isfinite(grad_norm):
            raise NotFinite(f"the gradient became {grad_norm}")
        self.optimizer.step()
        self.model.clamp_()
        return StepResult(loss, rate, grad_norm)

    def state(self) -> dict[str, Tensor]:
        """The optimizer's moments as `moment/parameter`: a flat table that does not depend on any order."""
        names: dict[Tensor, str] = {parameter: name for name, parameter in self.model.named_parameters()}
        moments = self.optimizer.state.items()
        return {f"{kind}/{names[p]}": moment for p, kinds in moments for kind, moment in kinds.items()}

    def load_state(self, stored: CheckpointReader) -> None:
        """Take over what `state` gave, each moment sharded as its parameter is; torch sees to devices and types."""
        trained = [p for group in self.optimizer.param_groups for p in group["params"]]
        number = {parameter: index for index, parameter in enumerate(trained)}
        parameters = {name: p for name, p in self.model.named_parameters() if p in number}
        moments = {name: _empty_moment(name, parameters, stored) for name in stored.names(OPTIMIZER)}
        stored.fill(moments, OPTIMIZER)
        state: dict[int, dict[str, Tensor]] = {}
        for full, moment in moments.items():
            kind, _, name = full.partition("/")
            state.setdefault(number[parameters[name]], {})[kind] = moment
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": state, "param_groups": groups})

    def _backward(self, batch: Batch, average: EMA | None = None) -> Loss:
        """Gradients of the whole batch's loss, through one pass or through micro-batches."""
        micro, batch = self.settings.micro_batch, self.objective.prepared(batch)
        taught = self._teach(batch, average) if self.taught else {}
        if micro and micro < len(batch):
            return cached_backward(
                self._embed,
                lambda e: self.compare({**e.roles(), **taught}, batch),
                batch,
                micro,
                lambda: no_sync(self.module),
                self._again,
            )
        loss = self.compare({**self._embed(batch).roles(), **taught}, batch)
        loss.total.backward()
        return loss

    def _keep_statistics(self) -> None:
        for norm in self.kept:
            norm.eval()

    def _embed(self, batch: Batch) -> Embeddings:
        self._keep_statistics()  # whatever was evaluated before has left the model in training mode
        needs = self.needs if batch.common else [role for role in self.needs if role not in COMMON]
        with self.autocast:
            return self.forward(batch, needs)

    def _again(self, batch: Batch) -> Embeddings:
        """As `_embed`, of a batch that was embedded before."""
        with leaving_statistics(self.model):
            return self._embed(batch)

    @torch.no_grad()
    def _teach(self, batch: Batch, average: EMA | None) -> dict[str, Tensor]:
        """The batch as the average sees it. It comes before the forward pass, whose weights must stay as they are."""
        assert average is not None, "an objective that the average teaches needs it in every step"
        seen: dict[str, list[Tensor]] = {role: [] for role in self.taught}
        with average.applied_to(self.model), evaluating(self.model), self.autocast:
            for part in micro_batches(batch, self.settings.micro_batch or len(batch)):
                points = self.model(part, [MOMENTUM[role] for role in self.taught]).roles()
                for role in self.taught:
                    seen[role].append(points[MOMENTUM[role]])
        return {role: torch.cat(parts) for role, parts in seen.items()}


def _empty_moment(name: str, parameters: Mapping[str, nn.Parameter], stored: CheckpointReader) -> Tensor:
    """Room for the moment stored as `kind/parameter`: a number, or of the parameter's shape and sharding."""
    parameter, shape = parameters[name.partition("/")[2]], stored.shape(OPTIMIZER + name)
    if shape not in ((), parameter.shape):
        raise ValueError(f"{name} is {list(shape)} there, but {list(parameter.shape)} here")
    return torch.empty_like(parameter).detach() if shape else stored.empty(OPTIMIZER + name)


def _total(norm: Tensor) -> float:
    """A norm that may be spread over ranks, as a number."""
    return float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)
