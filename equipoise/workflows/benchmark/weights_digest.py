"""A digest of a model: of all that decides its points."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor


def weights_digest(about: Any, tensors: Iterable[tuple[str, Tensor]]) -> str:
    """A digest of facts and of tensors by name."""
    digest = hashlib.blake2b(json.dumps(about, default=str, sort_keys=True).encode(), digest_size=16)
    for name, tensor in sorted(tensors, key=lambda pair: pair[0]):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        if tensor.numel():
            digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
