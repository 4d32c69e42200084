"""The optimizer's moments by the names of their parameters: a flat table that does not depend on any order."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

import torch
from torch import Tensor, nn

from equipoise.training.checkpoint.distributed_checkpoint import OPTIMIZER, CheckpointReader
from equipoise.types import UserError

KINDS = COUNT, *_ = "step", "exp_avg", "exp_avg_sq"  # what AdamW keeps of a parameter


def optimizer_state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The moments, named `kind/parameter` ("exp_avg/image_encoder.norm.weight")."""
    names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
    moments = optimizer.state.items()
    return {f"{kind}/{names[p]}": moment for p, kinds in moments for kind, moment in kinds.items()}


def load_optimizer_state(model: nn.Module, optimizer: torch.optim.Optimizer, stored: CheckpointReader) -> None:
    """Restore what `optimizer_state` gave, each moment sharded as its parameter; torch sees to devices and types."""
    trained = [p for group in optimizer.param_groups for p in group["params"]]
    number = {parameter: index for index, parameter in enumerate(trained)}
    parameters = {name: p for name, p in model.named_parameters() if p in number}
    _require_moments(stored.names(OPTIMIZER), parameters)
    owner = {full: parameters[full.partition("/")[2]] for full in stored.names(OPTIMIZER)}
    moments = {full: _empty_moment(full, parameter, stored) for full, parameter in owner.items()}
    stored.fill(moments, OPTIMIZER)
    state: dict[int, dict[str, Tensor]] = {}
    for full, moment in moments.items():
        state.setdefault(number[owner[full]], {})[full.partition("/")[0]] = moment
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def steps_counted(moments: Mapping[str, Tensor]) -> int:
    """Steps that the optimizer has counted, of the parameter that has trained longest; 0 without moments."""
    counts = [float(count) for name, count in moments.items() if name.startswith(f"{COUNT}/")]
    return int(max(counts)) if counts and all(map(math.isfinite, counts)) else 0


def _require_moments(names: Sequence[str], parameters: Collection[str]) -> None:
    """Raise UserError unless each parameter that has moments has them all, and no other has any."""
    kinds: dict[str, set[str]] = {}
    for full in names:
        kind, _, parameter = full.partition("/")
        if parameter not in parameters or kind not in KINDS:
            raise UserError(f"{OPTIMIZER}{full} is no moment of a parameter that trains")
        kinds.setdefault(parameter, set()).add(kind)
    for parameter, found in kinds.items():
        if missing := set(KINDS) - found:
            raise UserError(f"{OPTIMIZER}{min(missing)}/{parameter} is missing")


def _empty_moment(name: str, parameter: nn.Parameter, stored: CheckpointReader) -> Tensor:
    """Room for a moment: a number (the count of steps), or of the parameter's shape, type and sharding."""
    if name.startswith(f"{COUNT}/"):
        stored.require_like(OPTIMIZER + name, torch.zeros(()))
        return stored.empty(OPTIMIZER + name)
    stored.require_like(OPTIMIZER + name, parameter)
    return torch.empty_like(parameter).detach()
