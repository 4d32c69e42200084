"""Embeddings of every class's prompt: pivots that all images of a batch are compared with.

They are common to the batch: the text tower reads all C prompts once per step, with gradients, whatever the size of the
batch or of its micro-batches, and every process reads them all. Beyond AT_ONCE they are read in parts whose activations
are made again for the gradient, so that memory grows with C by the points alone; that costs the tower's forward pass
twice.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from equipoise.data.source import CLASS_PROMPTS, CLASS_PROMPTS_MASK
from equipoise.types import Batch, UserError

AT_ONCE = 256  # prompts whose activations are kept


def pivot_points(encode: Callable[[Tensor, Tensor], Tensor], batch: Batch) -> Tensor:
    """Points of all classes [C, d], made by `encode` from token ids and mask."""
    if CLASS_PROMPTS not in batch.common:
        raise UserError(
            "the objective compares images with all classes, whose prompts the batch does not hold; make it with "
            "Batches(..., views=objective.views)"
        )
    ids, mask = batch.common[CLASS_PROMPTS], batch.common[CLASS_PROMPTS_MASK]
    if len(ids) <= AT_ONCE:
        return encode(ids, mask)
    parts = zip(ids.split(AT_ONCE), mask.split(AT_ONCE), strict=True)
    return torch.cat([checkpoint(encode, *part, use_reentrant=False) for part in parts])
