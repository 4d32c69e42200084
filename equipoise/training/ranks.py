"""Several processes, one run: joining them under `torchrun`, and wrapping a model so that they train it together.

DDP keeps a whole model on every rank; FSDP2 (`fully_shard`) keeps a slice of every block. Both average parameter
gradients over ranks, which `kernels/gather.py` accounts for. The temperature stays outside both: every rank computes
the loss of the whole batch, so its gradient is complete everywhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from equipoise.models.model import Model
from equipoise.types import UserError

TEMPERATURE = ("logit_scale", ".logit_scale")  # DDP knows a parameter of the outermost module by the second name


@dataclass(frozen=True)
class Ranks:
    """Which process this is, of how many."""

    rank: int = 0
    world: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process is the one that writes and speaks."""
        return self.rank == 0

    @property
    def share(self) -> tuple[int, int]:
        return self.rank, self.world

    def part_of(self, batch_size: int) -> int:
        if batch_size % self.world:
            raise UserError(f"batch_size {batch_size} cannot be shared by {self.world} processes; use a multiple of it")
        return batch_size // self.world

    def wait(self) -> None:
        if self.world > 1:
            dist.barrier()


@contextmanager
def joined(device: torch.device, timeout_minutes: float) -> Iterator[Ranks]:
    """This process's place among those `torchrun` started; alone without it. A dead rank ends the others in time."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        yield Ranks()
        return
    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, timeout=timedelta(minutes=timeout_minutes))
    try:
        yield Ranks(dist.get_rank(), world)
    except RuntimeError as error:
        if "gloo" in str(error) or "NCCL" in str(error) or "onnection" in str(error):
            reason = str(error).splitlines()[0]
            raise UserError(
                f"another process of this run died or stalled, so rank {dist.get_rank()} stopped: {reason}"
            ) from error
        raise
    finally:
        dist.destroy_process_group()


def require_one_process() -> None:
    """The training loop writes and measures as one process; several would do so against each other."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world > 1:
        raise UserError(f"{world} processes were started, but a run trains in one; start it without torchrun")


def together(model: Model, ranks: Ranks, parallel: str, device: torch.device) -> nn.Module:
    """The module to call in place of `model`, so that the ranks' gradients are exchanged."""
    if ranks.world == 1:
        return model
    if parallel == "fsdp":
        return _sharded(model)
    nn.parallel.DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, TEMPERATURE)
    return nn.parallel.DistributedDataParallel(model, device_ids=[device] if device.type == "cuda" else None)


def alone(module: nn.Module) -> AbstractContextManager[Any]:
    """While in it, backward leaves gradients on their rank (for all micro-batches but the last)."""
    return module.no_sync() if isinstance(module, nn.parallel.DistributedDataParallel) else nullcontext()


def _sharded(model: Model) -> Model:
    from torch.distributed.fsdp import fully_shard

    for tower in (model.image_encoder, model.text_encoder):
        for block in tower.blocks():
            fully_shard(block)
    fully_shard(model, ignored_params={model.logit_scale})
    return model
