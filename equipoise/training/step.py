"""One optimizer step: embed, compare, differentiate, clip, update."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from equipoise.encoders.batch_norm import leaving_statistics
from equipoise.models.model import Model, evaluating
from equipoise.objectives import Objective
from equipoise.ops.float8_linear import use_float8
from equipoise.ops.round_rows import try_kernel
from equipoise.ops.short_attention import try_kernels
from equipoise.ops.tf32 import tf32_products
from equipoise.training.batch_loss import BatchLoss
from equipoise.training.batch_norm import prepare_batch_norm
from equipoise.training.cuda_graphs import GraphedModel, require_recordable, widths_differ
from equipoise.training.distributed.loss_sharding import choose_loss_sharding
from equipoise.training.distributed.ranks import Ranks
from equipoise.training.distributed.wrap import broadcast_scale_grads, no_sync, wrap_model
from equipoise.training.ema import EMA
from equipoise.training.finite import Deferred, FiniteCheck, Immediate
from equipoise.training.freezing import READOUTS, TwoPhase, freeze_all_but, frozen, frozen_norms
from equipoise.training.grad_cache import cached_backward, micro_batches
from equipoise.training.length import is_due
from equipoise.training.optimizer import learning_rate, make_optimizer
from equipoise.training.settings import Training
from equipoise.training.term_gradients import require_gradients_possible, with_term_gradients
from equipoise.types import COMMON, MOMENTUM, RECALLED, Batch, Embeddings, Loss, UserError

SKIPS_SHARDED = "2.13"  # the first torch of which a fused step of DTensors was seen to be skipped whole


@dataclass(frozen=True)
class StepResult:
    loss: Loss
    learning_rate: float
    grad_norm: Tensor  # a number, which may still have to be waited for


class Step:
    """One optimizer step of a model; `ranks` says which part of each batch this process holds.

    Building one goes in this order, for each line builds on those above it:

        freeze       DDP waits for a gradient of every parameter that requires one when it wraps
        batch norm   layers of frozen parts keep their statistics, those that train join over the ranks
        wrap         FSDP2 replaces every parameter by a sharded one
        optimizer    holds parameters, as the phases do: the wrapped model's
        compile      traces or records what is wrapped, with the kernels that were tried before
    """

    def __init__(
        self, model: Model, objective: Objective, settings: Training, device: torch.device, ranks: Ranks | None = None
    ):
        self.model, self.objective, self.settings = model, objective, settings
        self.ranks = ranks or Ranks()
        require_gradients_possible(settings, self.ranks.world)
        if settings.cuda_graphs:
            require_recordable(settings, device, self.ranks.world)
        self.teacher_roles = settings.teacher_roles(list(dict.fromkeys((*objective.needs, *objective.shown))))
        self.roles = [role for role in objective.needs if role not in (*self.teacher_roles, *RECALLED)]
        objective.check_batches(settings.batch_size, settings.micro_batch)
        self.autocast = settings.autocast(device)
        probing = settings.probe.steps_of(settings.steps)
        self._freeze(probing)
        self._prepare_towers(probing)
        self.module = wrap_model(model, self.ranks, settings.parallel, device)
        self.phases = TwoPhase(model, READOUTS, settings.trains, probing) if probing else None
        self.optimizer = make_optimizer(model, settings)
        self.finite = _finite_check(self.optimizer)
        exchange = choose_loss_sharding(settings, objective, self.ranks, model.space.dim)
        self.loss = BatchLoss(model, objective, exchange, self.finite)
        try_kernels(device)
        self.forward = self._forward()

    def _forward(self) -> Callable[[Batch, Sequence[str]], Embeddings]:
        """The model's passes, as they are, compiled, recorded, or both."""
        passes = torch.compile(self.module) if self.settings.compile else self.module
        return GraphedModel(self.model, passes) if self.settings.cuda_graphs else passes

    def _freeze(self, probing: int) -> None:
        """Leave gradients to what trains in any step of the run, of which the first `probing` train the readouts."""
        if self.model.regions is not None and "regions" not in self.objective.trains:
            self.model.regions.requires_grad_(False)
        freeze_all_but(self.model, self.settings.trains, *((READOUTS,) if probing else ()))

    def _prepare_towers(self, probing: int) -> None:
        """Choose how the encoders multiply, and what they keep: activations, and batch norm's running statistics."""
        if self.settings.precision == "float8":
            self._use_float8(self.model.device)
        for tower in self.model.encoders():
            tower.recompute_activations(self.settings.recompute_activations)
        for head in self.model.all_heads():
            head.recompute_activations(self.settings.recompute_activations)
        self.frozen_norms = frozen_norms(self.model, self.settings.keep_statistics or probing > 0)
        self._keep_statistics()
        prepare_batch_norm(self.model, self.settings, self.ranks)

    def _use_float8(self, device: torch.device) -> None:
        try_kernel(device)
        towers = (tower.blocks() for tower in self.model.encoders())
        named = [(name, block) for blocks in towers for name, block in _named(self.model, blocks)]
        if not use_float8(named):
            raise UserError(
                'precision "float8" is of linear maps of transformer blocks, of which this model has none; use bf16'
            )

    def __call__(self, batch: Batch, number: int, average: EMA | None = None) -> StepResult:
        """Do step `number`, from 1; `average` is the EMA of the weights so far, for an objective that it teaches."""
        rate = learning_rate(number - 1, self.settings)
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["speed"]
        self.optimizer.zero_grad(set_to_none=True)
        resting = self.phases.resting(number) if self.phases else []
        with frozen(resting, spared=self.ranks.world == 1), tf32_products(self.settings.precision == "tf32"):
            loss = self._backward(batch, average, self._is_logged(number))
        broadcast_scale_grads(self.model, self.ranks)
        grad_norm = _total(nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip_norm or math.inf))
        self.finite.gradient(grad_norm, loss, number)
        self.optimizer.step()
        self.model.clamp_()
        return StepResult(loss, rate, grad_norm)

    def _is_logged(self, number: int) -> bool:
        settings = self.settings
        return settings.log_gradients and is_due(number, settings.log_every, settings.steps)

    def _backward(self, batch: Batch, average: EMA | None = None, by_term: bool = False) -> Loss:
        """Fill the gradients of the whole batch's loss, in one pass or in micro-batches; `by_term`, the norm of each
        term's is a fact of the loss."""
        micro, batch = self.settings.micro_batch, self.objective.prepared(batch)
        made = self._teach(batch, average) if self.teacher_roles else {}
        taught = {role: points for role, points in made.items() if role in self.objective.needs}
        shown = {role: points for role, points in made.items() if role in self.objective.shown}
        if micro and micro < len(batch):
            return cached_backward(
                self._embed,
                lambda e: self.loss({**e.roles(), **taught}, batch),
                batch,
                micro,
                lambda: no_sync(self.module),
                self._again,
            )
        seen = replace(batch, common={**batch.common, **shown}) if shown else batch
        loss = self.loss({**self._embed(seen).roles(), **taught}, batch)
        loss = with_term_gradients(loss, self.model.parameters()) if by_term else loss
        loss.total.backward()
        return loss

    def _keep_statistics(self) -> None:
        for norm in self.frozen_norms:
            norm.eval()

    def _embed(self, batch: Batch) -> Embeddings:
        self._keep_statistics()  # whatever was evaluated before has put the model back in training mode
        roles = self.roles if batch.common else [role for role in self.roles if role not in COMMON]
        if self.settings.compile:
            widths_differ(batch)
        with self.autocast:
            return self.forward(batch, roles)

    def _again(self, batch: Batch) -> Embeddings:
        """As `_embed`, of a batch that was embedded before: running statistics do not count it twice."""
        with leaving_statistics(self.model):
            return self._embed(batch)

    @torch.no_grad()
    def _teach(self, batch: Batch, average: EMA | None) -> dict[str, Tensor]:
        """Points of the batch by the EMA. Made before the forward pass, whose weights must stay as they are."""
        assert average is not None, "an objective that the average teaches needs it in every step"
        made = [role.removeprefix(MOMENTUM) for role in self.teacher_roles]
        seen: dict[str, list[Tensor]] = {role: [] for role in made}
        with average.applied_to(self.model), evaluating(self.model), self.autocast:
            for part in micro_batches(self.objective.taught(batch), self.settings.micro_batch or len(batch)):
                points = (self.forward if self.settings.cuda_graphs else self.model)(part, made).roles()
                for role in made:
                    seen[role].append(points[role])
        return {f"{MOMENTUM}{role}": torch.cat(parts) for role, parts in seen.items()}


def _named(model: nn.Module, blocks: Iterable[nn.Module]) -> Iterator[tuple[str, nn.Module]]:
    """Modules of a model with their names in it."""
    names = {module: name for name, module in model.named_modules()}
    return ((names[block], block) for block in blocks)


def _total(norm: Tensor) -> Tensor:
    """A norm that may be sharded over ranks, as one that is not."""
    return norm.full_tensor() if hasattr(norm, "full_tensor") else norm


def _finite_check(optimizer: torch.optim.Optimizer) -> FiniteCheck:
    """Deferred where the optimizer can skip a step by itself: the fused one (a GPU's), of sharded parameters too where
    that torch was tried."""
    first = next(parameter for group in optimizer.param_groups for parameter in group["params"])
    tried = not hasattr(first, "full_tensor") or torch.__version__ >= SKIPS_SHARDED
    can_skip = optimizer.param_groups[0]["fused"] and tried
    return Deferred(optimizer, first.device) if can_skip else Immediate()
