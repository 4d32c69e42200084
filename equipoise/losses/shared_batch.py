"""The loss of a batch of which every rank has a shard: value and gradients of one process with the whole batch.

Every rank gets the loss of the whole batch. Gradients of features are those of the whole batch times the number of
ranks, because DDP, FSDP and what is built on them *average* the gradients of parameters over ranks, while that of the
batch is their *sum* (`kernels/sharding/gather.py`); those of logit_scale and logit_bias are the same on every rank. So
after averaging all are exact, as those of open_clip's ClipLoss with local_loss and gather_with_grad.

An objective that only contrasts is divided among the ranks, by `gathered` or `ring` (memory of a shard); below 1,024
pairs, and for objectives that do more with points than contrast them, every rank gathers all of them (`everything`).
`auto` takes what suits the size (`kernels/sharding/strategy.py`); `local` keeps every rank to itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from equipoise.data.keep.weights import PAIR_WEIGHT
from equipoise.kernels import Scoring
from equipoise.kernels.sharding.context import sharded_batch
from equipoise.kernels.sharding.gather import gather_points, gather_rows, is_distributed, own_rank, world_size
from equipoise.kernels.sharding.host_numbers import gather_numbers
from equipoise.kernels.sharding.strategy import DIVIDED, EVERYTHING, strategy_for
from equipoise.objectives import Objective
from equipoise.types import COMMON, Batch, Embeddings, Loss, StepInfo, UserError

LOCAL = "local"
EXCHANGES = ("auto", *DIVIDED, EVERYTHING, LOCAL)


def check_exchange(exchange: str, objective: Objective) -> None:
    if exchange not in EXCHANGES:
        raise UserError(f"exchange must be one of {', '.join(EXCHANGES)}, not {exchange!r}")
    if exchange in DIVIDED and not objective.divisible:
        raise UserError(
            f"exchange is {exchange}, but {type(objective).__name__} with these settings cannot be divided among "
            f"ranks; leave it at auto, or set it to {EVERYTHING}"
        )


def require_agreement(sizes: tuple[int, int], problem: UserError | None) -> None:
    """Raise UserError on all ranks where one has a problem, or where their shards differ in pairs or in numbers per
    feature. All ranks call it together."""
    if not is_distributed():
        return
    found = gather_numbers(*sizes, problem is not None)
    if problem is not None:
        return  # this rank has a sentence of its own
    refused = [rank for rank, (_, _, failed) in enumerate(found) if failed]
    if refused:
        raise UserError(f"rank {refused[0]} cannot compute its part of the loss; its own message says why")
    for number, what in ((0, "pairs"), (1, "numbers per feature")):
        first, *others = (row[number] for row in found)
        for rank, size in enumerate(others, 1):
            if size != first:
                raise UserError(
                    f"rank 0 has {first} {what} and rank {rank} {size}; give every rank as many (a DataLoader with "
                    'drop_last=True does), or set exchange="local" to compare no rank with another'
                )


def shared_loss(
    objective: Objective,
    mine: Embeddings,
    side: Mapping[str, Tensor],
    scoring: Scoring,
    moment: StepInfo,
    exchange: str,
) -> tuple[Loss, Embeddings]:
    """The loss of the whole batch, and the points it was computed of: all, or this rank's where they are divided."""
    numbers = own_rank() * len(mine.image) + torch.arange(len(mine.image), device=mine.image.device)
    given = NotedReads({"index": numbers, **side})
    alone = exchange == LOCAL or not is_distributed()
    way = LOCAL if alone else _way(exchange, objective, mine)
    if way == EVERYTHING:
        mine = Embeddings.of({role: x if role in COMMON else gather_points(x) for role, x in mine.roles().items()})
        given = NotedReads({name: _gather(tensor) for name, tensor in given.items()})
    with sharded_batch(way, len(mine.image)) if way in DIVIDED else nullcontext():
        loss = objective.loss(mine, _batch(given, mine, moment), scoring)
    given.require_read()
    return loss, mine


def _way(exchange: str, objective: Objective, mine: Embeddings) -> str:
    if not objective.divisible:
        return EVERYTHING
    pairs, dim = mine.image.shape
    return strategy_for(pairs * world_size(), dim, len(objective.needs) - 1) if exchange == "auto" else exchange


def _gather(tensor: Tensor) -> Tensor:
    return gather_points(tensor) if tensor.requires_grad else gather_rows(tensor)


def _batch(side: NotedReads, points: Embeddings, moment: StepInfo) -> Batch:
    """The batch that objectives look at for what is not points; pictures and words are none of a loss's business."""
    nothing = points.image.new_empty(0)
    return Batch(nothing, nothing.long(), nothing.bool(), side["index"], side, moment)


class NotedReads(dict[str, Tensor]):
    """Side data that knows which of it was looked at."""

    def __init__(self, data: Mapping[str, Tensor]):
        super().__init__(data)
        self.read = {"index"}

    def __getitem__(self, name: str) -> Tensor:
        self.read.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.read.add(name)
        return super().get(name, default)

    def require_read(self) -> None:
        """Raises UserError for data that nobody looked at: it would be thought to count."""
        unread = next((name for name in self if name not in self.read), None)
        if unread is not None:
            shown = "weights" if unread == PAIR_WEIGHT else unread
            raise UserError(
                f"{shown} was handed in, but the loss with these settings does not read it; leave it out, or choose a "
                "target or guide that does"
            )
