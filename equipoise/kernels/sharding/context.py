"""Contrasts whose work and memory are sharded over ranks.

    with sharded_batch("ring", len(image)):
        loss = contrast(image, text, ...)       # image, text: this rank's shard of the points

gives every rank the loss of the whole batch; its gradients are those of the whole batch too, times `world` for points,
as `gather.py` explains, and as they are for log_scale, bias and a guide's scale. A rank compares its own rows with all
columns: 1/world of the work, and of the memory round a `ring`. Whoever does more with points than contrast them must
see all of them, and gathers them instead (`gather.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch.distributed as dist
from torch import Tensor

from equipoise.forms import Form
from equipoise.kernels.sharding.all_gather import AllGather
from equipoise.kernels.sharding.host_numbers import gather_numbers
from equipoise.kernels.sharding.ring import Ring
from equipoise.kernels.sharding.shards import ShardedColumns
from equipoise.targets import Target
from equipoise.types import UserError

STRATEGIES: dict[str, type[ShardedColumns]] = {"ring": Ring, "gathered": AllGather}

_shards: ContextVar[ShardedColumns | None] = ContextVar("shards", default=None)


@contextmanager
def sharded_batch(strategy: str, samples: int) -> Iterator[ShardedColumns]:
    """Make `contrast` take this rank's `samples` rows and columns as a shard of the batch. All ranks enter together."""
    sizes = tuple(size for (size,) in gather_numbers(samples))
    shards = STRATEGIES[strategy](dist.get_rank(), sizes)
    before = _shards.set(shards)
    try:
        yield shards
    finally:
        _shards.reset(before)


def current_shards() -> ShardedColumns | None:
    """The shards of a contrast's columns, an object per contrast; None outside `sharded_batch`."""
    shards = _shards.get()
    return None if shards is None else shards.fresh()


def target_of_batch(shards: ShardedColumns, rows: Tensor, cols: Tensor, target: Target, form: Form) -> Target:
    """The target of the whole batch, from one bound to this rank's shard; raises UserError where there is none."""
    own = shards.sizes[shards.rank]
    if not len(rows) == len(cols) == own:
        raise UserError(
            f"{len(rows)} rows and {len(cols)} columns are no part of a batch of which {own} samples are here; "
            "set training.exchange to everything"
        )
    for kind, part in (("target", target), ("form", form)):
        if not part.divisible:
            name = type(part).__name__
            raise UserError(f"the {kind} {name} cannot be divided among processes; set training.exchange to everything")
    return target.whole(shards.gather, *shards.shape)
