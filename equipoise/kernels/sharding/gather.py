"""Points of all ranks on every rank, with gradients that come out as if there were one rank.

Every rank computes the loss of the whole batch from the gathered points, so each already has the full gradient of its
own points: backward needs no communication. Data-parallel wrappers then *average* parameter gradients over the ranks,
while the gradient of the whole batch is their *sum*; the factor `world` is put where it belongs, on the points, once.
What is not a function of gathered points (the logit scale, points that are common to the batch) has the same full
gradient on every rank and needs none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional as F

from equipoise.data.source import MODALITY, MODALITY_MASK, PIXELS
from equipoise.types import Batch

_alone: list[bool] = []  # of the process, for the threads that compute gradients must know it as well


@contextmanager
def alone() -> Iterator[None]:
    """Compute as the only rank while in it, whatever group there is: the others take no part."""
    _alone.append(True)
    try:
        yield
    finally:
        _alone.pop()


def is_distributed() -> bool:
    """Whether there is more than one rank, and this one does not work alone."""
    return not _alone and dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def own_rank() -> int:
    """The number of this rank; 0 where there is one."""
    return dist.get_rank() if is_distributed() else 0


def world_size() -> int:
    return dist.get_world_size() if is_distributed() else 1


def gather_points(points: Tensor) -> Tensor:
    """[N/world, d] on each rank -> [N, d], in the order of ranks; differentiable in this rank's shard."""
    return _Gather.apply(points) if is_distributed() else points  # type: ignore[no-untyped-call]


@torch.no_grad()
def gather_rows(rows: Tensor) -> Tensor:
    """Rows of all ranks, as `gather_points`, for data that needs no gradient."""
    if not is_distributed():
        return rows
    shards = [torch.empty_like(rows) for _ in range(dist.get_world_size())]
    dist.all_gather(shards, rows.contiguous())
    return torch.cat(shards)


def sum_over_ranks(tensor: Tensor) -> Tensor:
    """The sum of all ranks' tensors, computed in place."""
    if is_distributed():
        dist.all_reduce(tensor)
    return tensor


def gather_batch(batch: Batch) -> Batch:
    """The whole batch as objectives see it: index, tokens, mask and side data of all ranks. Tensors that differ in
    width between ranks are padded with zeros. Pixels and features are not gathered: `images`, and `tokens` that are no
    ids, are empty, and views of images left out; what is common to the batch each rank has."""
    if not is_distributed():
        return batch
    ids = {} if batch.tokens.is_floating_point() else {"tokens": batch.tokens}
    gathered = {name: tensor for name, tensor in batch.side.items() if not _is_input(name)}
    found = _gather_ragged({"mask": batch.mask, "index": batch.index, **ids, **_prefixed(gathered)})
    side = {name: found[f"side/{name}"] for name in gathered}
    tokens = found.get("tokens", batch.tokens[:0])
    return Batch(batch.images[:0], tokens, found["mask"], found["index"], side, batch.moment, batch.common)


def _is_input(name: str) -> bool:
    """Whether side data is what an encoder reads: much to send, and no objective looks at it."""
    return name in PIXELS or name.startswith((MODALITY, MODALITY_MASK))


def _prefixed(side: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"side/{name}": tensor for name, tensor in side.items()}


@torch.no_grad()
def _gather_ragged(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    widths = torch.tensor([width for tensor in tensors.values() for width in tensor.shape[1:]])
    dist.all_reduce(widths, dist.ReduceOp.MAX)  # on the CPU: no GPU waits for it
    found, widest = {}, iter(widths.tolist())
    for name, tensor in tensors.items():
        missing = [next(widest) - width for width in tensor.shape[1:]]
        padding = [side for extra in reversed(missing) for side in (0, extra)]
        found[name] = gather_rows(F.pad(tensor, padding) if any(missing) else tensor)
    return found


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, points: Tensor) -> Tensor:
        ctx.mine = slice(dist.get_rank() * len(points), (dist.get_rank() + 1) * len(points))
        return gather_rows(points)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> Tensor:
        return upstream[0][ctx.mine] * dist.get_world_size()
