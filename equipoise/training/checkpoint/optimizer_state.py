"""The optimizer's moments by the names of their parameters: a flat table that does not depend on any order."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from equipoise.training.checkpoint.distributed_checkpoint import OPTIMIZER, CheckpointReader


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
    owner = {full: parameters[full.partition("/")[2]] for full in stored.names(OPTIMIZER)}
    moments = {full: _empty_moment(full, parameter, stored) for full, parameter in owner.items()}
    stored.fill(moments, OPTIMIZER)
    state: dict[int, dict[str, Tensor]] = {}
    for full, moment in moments.items():
        state.setdefault(number[owner[full]], {})[full.partition("/")[0]] = moment
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def _empty_moment(name: str, parameter: nn.Parameter, stored: CheckpointReader) -> Tensor:
    """Room for a moment: a number (the count of steps), or of the parameter's shape and sharding."""
    shape = stored.shape(OPTIMIZER + name)
    if shape not in ((), parameter.shape):
        raise ValueError(f"{name} is {list(shape)} there, but {list(parameter.shape)} here")
    return torch.empty_like(parameter).detach() if shape else stored.empty(OPTIMIZER + name)
