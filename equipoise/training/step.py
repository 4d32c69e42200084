"""One optimiser step: embed, compare, differentiate, clip, update."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor, nn

from equipoise.encoders.batch_norm import leaving_statistics
from equipoise.kernels.finite import NotFinitePoints
from equipoise.kernels.gather import gather_batch, gather_points
from equipoise.models.model import Model, evaluating
from equipoise.objectives import Objective
from equipoise.spaces import Space, hardness
from equipoise.training.average import Average
from equipoise.training.cached import cached_backward, micro_batches
from equipoise.training.optimiser import learning_rate, make_optimiser
from equipoise.training.parallel import alone, same_stretch, together
from equipoise.training.ranks import Ranks
from equipoise.training.rows import is_spread, own_part, own_rows
from equipoise.training.settings import Training
from equipoise.training.statistics import prepare_statistics
from equipoise.training.stored import Stored
from equipoise.types import MOMENTUM, Batch, Embeddings, Loss


class NotFinite(ArithmeticError):
    """A number of the step is NaN or infinite; the message says which. The weights were not touched."""


@dataclass(frozen=True)
class StepFacts:
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
        if model.regions is not None and "regions" not in objective.trains:
            model.regions.requires_grad_(False)  # else DDP waits for a gradient that never comes
        prepare_statistics(model, settings, self.ranks)
        self.module = together(model, self.ranks, settings.parallel, device)
        self.optimiser = make_optimiser(model, settings)
        self.forward = torch.compile(self.module) if settings.compile else self.module

    def __call__(self, batch: Batch, number: int, average: Average | None = None) -> StepFacts:
        """Step `number` from 1; `average` is that of the weights so far, for an objective that it teaches."""
        rate = learning_rate(number - 1, self.settings)
        for group in self.optimiser.param_groups:
            group["lr"] = rate * group["speed"]
        self.optimiser.zero_grad(set_to_none=True)
        loss = self._backward(batch, average)
        same_stretch(self.model, self.ranks)
        grad_norm = _total(nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip_norm or math.inf))
        if not math.isfinite(grad_norm):
            raise NotFinite(f"the gradient became {grad_norm}")
        self.optimiser.step()
        self.model.bring_back()
        return StepFacts(loss, rate, grad_norm)

    def state(self) -> dict[str, Tensor]:
        """The optimiser's moments as `moment/parameter`: a flat table that does not depend on any order."""
        names: dict[Tensor, str] = {parameter: name for name, parameter in self.model.named_parameters()}
        moments = self.optimiser.state.items()
        return {f"{kind}/{names[p]}": moment for p, kinds in moments for kind, moment in kinds.items()}

    def load_state(self, stored: Stored, part: str = "") -> None:
        """Take over what `state` gave, stored under names that begin with `part`; torch sees to devices and types."""
        parameters = [p for group in self.optimiser.param_groups for p in group["params"]]
        place = {parameter: number for number, parameter in enumerate(parameters)}
        named = {name: p for name, p in self.model.named_parameters() if p in place}
        moments: dict[int, dict[str, Tensor]] = {}
        for full in stored.names(part):
            kind, _, name = full.partition("/")
            moments.setdefault(place[named[name]], {})[kind] = _like(named[name], stored, part + full)
        groups = self.optimiser.state_dict()["param_groups"]
        self.optimiser.load_state_dict({"state": moments, "param_groups": groups})

    def _backward(self, batch: Batch, average: Average | None = None) -> Loss:
        """Gradients of the whole batch's loss, through one pass or through micro-batches."""
        micro = self.settings.micro_batch
        taught = self._teach(batch, average) if self.taught else {}
        if micro and micro < len(batch):
            return cached_backward(
                self._embed,
                lambda e: self._compare(e, batch, taught),
                batch,
                micro,
                lambda: alone(self.module),
                self._again,
            )
        loss = self._compare(self._embed(batch), batch, taught)
        loss.total.backward()
        return loss

    def _embed(self, batch: Batch) -> Embeddings:
        with self.autocast:
            return self.forward(batch, self.needs)

    def _again(self, batch: Batch) -> Embeddings:
        """As `_embed`, of a batch that was embedded before."""
        with leaving_statistics(self.model):
            return self._embed(batch)

    @torch.no_grad()
    def _teach(self, batch: Batch, average: Average | None) -> dict[str, Tensor]:
        """The batch as the average sees it. It comes before the forward pass, whose weights must stay as they are."""
        assert average is not None, "an objective that the average teaches needs it in every step"
        seen: dict[str, list[Tensor]] = {role: [] for role in self.taught}
        with average.applied_to(self.model), evaluating(self.model), self.autocast:
            for part in micro_batches(batch, self.settings.micro_batch or len(batch)):
                points = self.model(part, [MOMENTUM[role] for role in self.taught]).roles()
                for role in self.taught:
                    seen[role].append(points[MOMENTUM[role]])
        return {role: torch.cat(parts) for role, parts in seen.items()}

    def _compare(self, embeddings: Embeddings, batch: Batch, taught: Mapping[str, Tensor]) -> Loss:
        """The loss of the whole batch, wherever its parts are."""
        roles = {**embeddings.roles(), **taught}
        whole = Embeddings.of({role: gather_points(points) for role, points in roles.items()})
        model = self.model
        try:
            loss = self.objective(
                whole, gather_batch(batch), log_scale=model.log_scale, space=model.space, bias=model.logit_bias
            )
        except NotFinitePoints as problem:  # which row it was says little of a model that diverged
            raise NotFinite("the loss became nan (points of the model are NaN or infinite)") from problem
        _require_finite(loss)
        model.remember(whole)
        return replace(loss, facts=partial(_facts, loss, whole.image.detach(), whole.text.detach(), model.space))


def _facts(loss: Loss, image: Tensor, text: Tensor, space: Space) -> dict[str, float]:
    """What the objective has to say, and how hard the batch was for it (`spaces/hardness.py`)."""
    by_image, by_text = hardness(image, text, space=space), hardness(text, image, space=space)
    return {
        **loss.facts(),
        "batch/positive": float(by_image.positive.mean()),
        "batch/closest_text": float(by_image.closest.mean()),
        "batch/closest_image": float(by_text.closest.mean()),
        "batch/texts_above": float(by_image.above.mean()),
        "batch/images_above": float(by_text.above.mean()),
    }


def _require_finite(loss: Loss) -> None:
    total = loss.total.item()
    if math.isfinite(total):
        return
    values = {name: value.item() for name, value in loss.terms.items()}
    bad = [f"{name} = {value}" for name, value in values.items() if not math.isfinite(value)]
    raise NotFinite(f"the loss became {total} (terms: {', '.join(bad) or 'all finite before their sum'})")


def _like(parameter: nn.Parameter, stored: Stored, name: str) -> Tensor:
    """A stored moment, spread over the ranks as its parameter is."""
    if not is_spread(parameter) or stored.shape(name) != parameter.shape:
        return stored.take(name)
    moment = torch.empty_like(parameter).detach()
    own_part(moment).copy_(stored.take(name, own_rows(moment)))
    return moment


def _total(norm: Tensor) -> float:
    """A norm that may be spread over ranks, as a number."""
    return float(norm.full_tensor() if hasattr(norm, "full_tensor") else norm)
