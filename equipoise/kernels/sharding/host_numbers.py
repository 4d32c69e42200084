"""Whole numbers of every rank on every rank, by way of the host: no GPU is waited for.

A process group that was started for GPUs alone (nccl, as other people's loops do) passes nothing of the host; then one
by gloo is made beside it, once.
"""

from __future__ import annotations

import torch
import torch.distributed as dist

_beside: list[tuple[object, dist.ProcessGroup]] = []  # the default group, and the one that was made beside it


def gather_numbers(*mine: int) -> list[tuple[int, ...]]:
    """The numbers of every rank, in the order of ranks. All ranks call it together, with as many numbers."""
    numbers = torch.tensor(mine, dtype=torch.long)
    found = [torch.empty_like(numbers) for _ in range(dist.get_world_size())]
    dist.all_gather(found, numbers, group=_host_group())
    return [tuple(row.tolist()) for row in found]


def _host_group() -> dist.ProcessGroup | None:
    """None where the default group passes tensors of the host."""
    if any(part.startswith("cpu:") for part in str(dist.get_backend_config()).split(",")):
        return None
    if not _beside or _beside[0][0] is not dist.group.WORLD:
        _beside[:] = [(dist.group.WORLD, dist.new_group(backend="gloo"))]
    return _beside[0][1]
