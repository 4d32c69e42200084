"""Contrasts whose work and memory are divided among ranks.

    with sharded_batch("ring", len(image)):
        loss = contrast(image, text, ...)       # image, text: this rank's part of the points

gives every rank the loss of the whole batch; its gradients are those of the whole batch too, times `world` for points,
as `gather.py` explains, and as they are for log_scale, bias and a guide's scale. A rank compares its own rows with all
columns: 1/world of the work, and of the memory round a `ring`. Whoever does more with points than contrast them must
see all of them, and gathers them instead (`gather.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
import torch.distributed as dist
from torch import Tensor

from equipoise.forms import Form
from equipoise.kernels.sharding.all_gather import AllGather
from equipoise.kernels.sharding.ring import Ring
from equipoise.kernels.sharding.shards import ShardedColumns
from equipoise.targets import Target
from equipoise.types import UserError

WAYS: dict[str, type[ShardedColumns]] = {"ring": Ring, "gathered": AllGather}

_division: ContextVar[ShardedColumns | None] = ContextVar("division", default=None)


@contextmanager
def sharded_batch(way: str, samples: int) -> Iterator[ShardedColumns]:
    """While in it, `contrast` is given this rank's `samples` rows and columns. All ranks enter together."""
    sizes = [torch.zeros(1, dtype=torch.long) for _ in range(dist.get_world_size())]
    dist.all_gather(sizes, torch.tensor([samples]))  # on the processor: no GPU waits for it
    parts = WAYS[way](dist.get_rank(), tuple(int(size) for size in sizes))
    before = _division.set(parts)
    try:
        yield parts
    finally:
        _division.reset(before)


def division() -> ShardedColumns | None:
    """What a contrast's columns are divided into, if they are: an object for one contrast."""
    parts = _division.get()
    return None if parts is None else parts.again()


def whole_target(parts: ShardedColumns, rows: Tensor, cols: Tensor, target: Target, form: Form) -> Target:
    """The target of the whole batch, from what this rank knows of its part; a sentence where there is none."""
    here = parts.sizes[parts.rank]
    if not len(rows) == len(cols) == here:
        raise UserError(
            f"{len(rows)} rows and {len(cols)} columns are no part of a batch of which {here} samples are here; "
            "set training.exchange to everything"
        )
    for kind, part in (("target", target), ("form", form)):
        if not part.divisible:
            name = type(part).__name__
            raise UserError(f"the {kind} {name} cannot be divided among processes; set training.exchange to everything")
    return target.whole(parts.gather, *parts.shape)
