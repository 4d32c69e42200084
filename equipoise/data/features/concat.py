"""Rows of several files as one list, read by number: batches of float32, tokens padded to the longest of the batch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor

from equipoise.data.features.feature_file import Rows


class ConcatRows:
    def __init__(self, blocks: Sequence[Rows]):
        self.blocks = blocks
        self.width = blocks[0].values.shape[-1]
        self._starts = torch.tensor([0, *(len(block) for block in blocks)]).cumsum(0)

    def __len__(self) -> int:
        return int(self._starts[-1])

    def take(self, numbers: Sequence[int] | Tensor) -> tuple[Tensor, Tensor | None]:
        """Rows [n, w] without a mask, or tokens [n, L, w] with theirs [n, L]."""
        wanted = torch.as_tensor(numbers, dtype=torch.long)
        shape = torch.tensor([block.values.shape[1:] for block in self.blocks]).amax(dim=0).tolist()
        values = torch.zeros(len(wanted), *shape)
        mask = torch.zeros(len(wanted), shape[0], dtype=torch.bool) if len(shape) == 2 else None
        for block, (start, end) in zip(self.blocks, pairwise(self._starts.tolist()), strict=True):
            places = ((wanted >= start) & (wanted < end)).nonzero()[:, 0]
            if not len(places):
                continue
            rows = wanted[places] - start
            if mask is None:
                values[places] = block.values[rows].float()
                continue
            assert block.mask is not None
            length = block.values.shape[1]
            mask[places, :length] = block.mask[rows]
            # padding may hold anything, NaN too
            values[places, :length] = block.values[rows].float().where(block.mask[rows][..., None], 0.0)
        if mask is None:
            return values, None
        longest = int(mask.any(dim=0).nonzero().max()) + 1 if len(wanted) else 0
        return values[:, :longest], mask[:, :longest]
