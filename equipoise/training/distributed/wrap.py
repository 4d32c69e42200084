"""Wrapping a model so that several ranks train it together.

DDP keeps a whole model on every rank; FSDP2 (`fully_shard`) keeps some rows of every tensor (`dtensors.py`). Both
average parameter gradients over ranks, which `kernels/sharding/gather.py` accounts for. Logit scale and bias stay
outside both: every rank is given their gradient of the whole batch's loss (`loss_sharding.py`). So do the buffers of
heads.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from equipoise.models.modal_model import ModalModel
from equipoise.models.model import Model
from equipoise.training.distributed.ranks import Ranks
from equipoise.training.distributed.torch_private import ignore_in_ddp
from equipoise.types import Embeddings, UserError

SCALE_NAMES = ("logit_scale", "logit_bias")
NAMES = (
    *SCALE_NAMES,
    *(f".{name}" for name in SCALE_NAMES),
)  # DDP knows parameters of the outermost module by the second ones
# ways into a model beside `forward`
ENCODING = ("_encode_pictures", "_encode_strings", "_match_prepared", "caption_batch")
ENCODING_MODALITIES = ("_encode_modalities", "_scores")


def device_of_rank(device: torch.device, ranks: Ranks) -> torch.device:
    """The device of this rank: each has a GPU of its own, or raises UserError."""
    if ranks.world == 1 or device.type != "cuda":
        return device
    if device.index is not None:
        raise UserError(f"device {device} is one GPU, but there are {ranks.world} processes; set training.device=cuda")
    mine = torch.cuda.current_device()
    if (gpus := ranks.gather_objects(_uuid(mine))).count(_uuid(mine)) > 1:
        raise UserError(f"{len(gpus)} processes would share {len(set(gpus))} GPUs; start one process for each")
    return torch.device("cuda", mine)


def wrap_model(model: Model, ranks: Ranks, parallel: str, device: torch.device) -> nn.Module:
    """The module to call in place of `model`, so that the ranks' gradients are exchanged."""
    if ranks.world == 1:
        return model
    if parallel == "fsdp":
        return _sharded(model, device, ranks.world)
    ignore_in_ddp(model, (*NAMES, *model.memory()))
    return nn.parallel.DistributedDataParallel(
        model,
        device_ids=[device] if device.type == "cuda" else None,
        find_unused_parameters=model.leaves_unused,
    )


def no_sync(module: nn.Module) -> AbstractContextManager[Any]:
    """Leave gradients on their rank while in it (for all micro-batches but the last)."""
    return module.no_sync() if isinstance(module, nn.parallel.DistributedDataParallel) else nullcontext()


def broadcast_scale_grads(model: Model, ranks: Ranks) -> None:
    """Take the first rank's gradients of what every rank has whole, so that rounding cannot drive the ranks apart."""
    for parameter in _scale_and_bias(model) if ranks.world > 1 else ():
        if parameter.grad is not None:
            dist.broadcast(parameter.grad, src=0)


def _scale_and_bias(model: Model) -> list[nn.Parameter]:
    return [parameter for parameter in (model.logit_scale, model.logit_bias) if parameter is not None]


def _sharded(model: Model, device: torch.device, world: int) -> Model:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    _register_outputs(Embeddings)
    mesh = init_device_mesh(device.type, (world,))  # by default FSDP takes a GPU if there is one, whatever the device
    for tower in model.encoders():
        for block in tower.blocks():
            fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh, ignored_params=set(_scale_and_bias(model)), reshard_after_forward=True)
    for method in ENCODING_MODALITIES if isinstance(model, ModalModel) else ENCODING:
        register_fsdp_forward_method(model, method)
    return model


@cache
def _register_outputs(outputs: type) -> None:
    """Register a dataclass that `forward` returns: FSDP2 gathers a module's parameters again when a gradient reaches
    its outputs; torch 2.11 finds none in a dataclass that is not registered, and backward meets freed parameters."""
    torch.export.register_dataclass(outputs)


def _uuid(gpu: int) -> str:
    return f"{torch.cuda.get_device_properties(gpu).uuid}"
