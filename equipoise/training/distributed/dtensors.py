"""Tensors of which a rank may hold some rows only, as FSDP2 keeps them (DTensor), and all others, in the same words."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from equipoise.training.distributed.ranks import Ranks


def is_sharded(tensor: Tensor) -> bool:
    return isinstance(tensor, DTensor)


def local_part(tensor: Tensor) -> Tensor:
    """What this rank holds; writing to it writes to the tensor."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def gather_full(tensors: Mapping[str, Tensor], ranks: Ranks) -> dict[str, Tensor]:
    """Whole tensors in the first rank's main memory, nothing on the others. On a GPU there is one whole at a time."""
    found = {}
    for name, tensor in tensors.items():
        whole = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
        if ranks.is_main:
            found[name] = whole.detach().cpu() if is_sharded(tensor) else whole.detach()
    return found


@torch.no_grad()
def copy_local(into: Mapping[str, Tensor], source: Mapping[str, Tensor]) -> None:
    """Each rank copies what it holds, between tensors that are spread in the same way."""
    for name, tensor in into.items():
        local_part(tensor).copy_(local_part(source[name]))
