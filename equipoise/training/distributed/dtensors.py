"""One interface to plain tensors and to those that FSDP2 shards over ranks (DTensor)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from equipoise.training.distributed.ranks import Ranks


def is_sharded(tensor: Tensor) -> bool:
    return isinstance(tensor, DTensor)


def local_part(tensor: Tensor) -> Tensor:
    """This rank's part of the tensor; writing to it writes to the tensor."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def gather_full(tensors: Mapping[str, Tensor], ranks: Ranks) -> dict[str, Tensor]:
    """Whole tensors in the first rank's main memory, nothing on the others. A GPU holds one whole tensor at a time."""
    found = {}
    for name, tensor in tensors.items():
        whole = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
        if ranks.is_main:
            found[name] = whole.detach().cpu() if is_sharded(tensor) else whole.detach()
    return found


@torch.no_grad()
def copy_local(into: Mapping[str, Tensor], source: Mapping[str, Tensor]) -> None:
    """Copy this rank's part of each tensor, between tensors that are sharded in the same way."""
    if into:
        written, read = ([local_part(tensors[name]) for name in into] for tensors in (into, source))
        torch._foreach_copy_(written, read)  # a launch for many
