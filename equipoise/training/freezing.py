"""Which parameters a run trains: all of them, or the part that a way of fine-tuning moves.

    all        everything
    readouts   the last maps of both towers and what they share: linear probing
    image      the image tower and its readout; texts stay where they are (Zhai et al. 2022, LiT, the other way round)
    text       the text tower and its readout
    added      modules that say `added = True` of themselves: adapters, prompts, and the like

An objective's heads and its bias train always; the logit scale goes by its own settings. What is
frozen has no gradient, no weight decay and no optimizer state, and its batch norms keep their statistics.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from equipoise.encoders.batch_norm import batch_norms
from equipoise.models.model import Model
from equipoise.types import UserError

EVERYTHING, READOUTS, ADDED = "all", "readouts", "added"
PARTS = {
    READOUTS: ("image_readout", "text_readout", "shared"),
    "image": ("image_encoder", "image_readout", "regions"),
    "text": ("text_encoder", "text_readout"),
}
TRAINS = (EVERYTHING, *PARTS, ADDED)


def freeze_all_but(model: Model, *trains: str) -> None:
    """Leave gradients to the parameters that any of `trains` names, and to those of the objective."""
    if EVERYTHING in trains:
        return
    chosen = _always_trained(model).union(*(named(model, part) for part in trains))
    for parameter in model.parameters():
        if parameter not in chosen:
            parameter.requires_grad_(False)


class TwoPhase:
    """A run in two phases: which of the parameters that train at all rest in a step."""

    def __init__(self, model: Model, first: str, then: str, first_steps: int):
        """`first` and `then` name what trains in each phase; call it when all that never trains is frozen."""
        ever = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.resting_first, self.resting_then = (
            [parameter for parameter in ever if parameter not in _always_trained(model) | named(model, part)]
            for part in (first, then)
        )
        self.first_steps = first_steps

    def resting(self, step: int) -> list[nn.Parameter]:
        """Parameters that do not train in `step`, which counts from 1."""
        return self.resting_first if step <= self.first_steps else self.resting_then


@contextmanager
def frozen(parameters: Sequence[nn.Parameter], spared: bool) -> Iterator[None]:
    """Give `parameters` no gradient in this step: the optimizer then leaves them and their moments alone. Where they
    are `spared` it is not even computed; several processes wait for it, so there it is computed and dropped."""
    for parameter in parameters if spared else ():
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in parameters:
            parameter.requires_grad_(True)
            parameter.grad = None


def named(model: Model, trains: str) -> set[nn.Parameter]:
    """The parameters of the model that `trains` names."""
    if trains == EVERYTHING:
        return set(model.parameters())
    parts = added_modules(model) if trains == ADDED else [getattr(model, part) for part in PARTS[trains]]
    found = {parameter for part in parts if part is not None for parameter in part.parameters()}
    if not found:
        raise UserError(
            f'training.trains is "{trains}", but the model has no such parameters, so nothing would change; '
            f"choose another of {', '.join(TRAINS)}, or a setting that adds some"
        )
    return found


def added_modules(model: nn.Module) -> list[nn.Module]:
    return [module for module in model.modules() if getattr(module, "added", False)]


def frozen_norms(model: nn.Module, all_of_them: bool) -> list[_BatchNorm]:
    """Batch norms whose statistics are to stay: those of frozen parts, or all."""
    return [norm for norm in batch_norms(model) if all_of_them or _is_frozen(norm.parameters())]


def _is_frozen(parameters: Iterable[nn.Parameter]) -> bool:
    given = list(parameters)
    return bool(given) and not any(parameter.requires_grad for parameter in given)


def _always_trained(model: Model) -> set[nn.Parameter]:
    scale_and_bias = (model.logit_scale, model.logit_bias)
    return {*model.heads.parameters(), *(parameter for parameter in scale_and_bias if parameter is not None)}
