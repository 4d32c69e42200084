"""Calls of torch that have no public counterpart, each once: what to look at when a new torch is out.

The package supports torch 2.9 to 2.13; each note says since when torch has the call, all are still in 2.13.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

import torch.distributed as dist
from torch import nn


def set_group_timeout(seconds: float) -> None:
    """Set how long collectives of the default group wait. In torch since 2.1; `init_process_group(timeout=)` would do,
    but the group is joined before the recipe is read, which says how long."""
    dist.distributed_c10d._set_pg_timeout(timedelta(seconds=seconds))


def default_store() -> dist.Store:
    """The key-value store by which the ranks found each other. In torch since 1.8; a store of our own would need a
    second port, and would not be there when the connection fails."""
    return dist.distributed_c10d._get_default_store()


def ignore_in_ddp(model: nn.Module, names: Collection[str]) -> None:
    """Keep DDP from averaging the gradients of these parameters and from copying these buffers. In torch since 1.8
    ("will be removed when the API is finalized", which has not happened)."""
    nn.parallel.DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, names)
