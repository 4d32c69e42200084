"""Calls of torch that have no public counterpart, each once: what to look at when a new torch is out.

Needed from torch 2.9, the oldest supported, to 2.13, the newest tested, which has no public call for any of them.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

import torch.distributed as dist
from torch import nn


def set_group_timeout(seconds: float) -> None:
    """Set how long collectives of the default group wait. `init_process_group(timeout=)` would do,
    but the group is joined before the recipe is read, which says how long."""
    dist.distributed_c10d._set_pg_timeout(timedelta(seconds=seconds))


def default_store() -> dist.Store:
    """The key-value store by which the ranks found each other. A store of our own would need a
    second port, and would not be there when the connection fails."""
    return dist.distributed_c10d._get_default_store()


def ignore_in_ddp(model: nn.Module, names: Collection[str]) -> None:
    """Keep DDP from averaging the gradients of these parameters and from copying these buffers.
    Torch: "will be removed when the API is finalized"."""
    nn.parallel.DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, names)
