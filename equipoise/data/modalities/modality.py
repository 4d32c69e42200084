"""One modality of many samples: numbers, which of their steps are real, and which samples have it at all.

    values [N, w] vectors, or [N, L, w] sequences with mask [N, L]       has [N]

A sample that lacks the modality holds zeros, none of them real.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass(frozen=True)
class Modality:
    values: Tensor
    mask: Tensor | None
    has: Tensor

    def __len__(self) -> int:
        return len(self.values)

    @property
    def width(self) -> int:
        return self.values.shape[-1]

    def take(self, rows: Sequence[int] | Tensor) -> Modality:
        """Some samples, in float32; what is no part of them is zero, whatever the file has there."""
        chosen = torch.as_tensor(rows, dtype=torch.long)
        has, values = self.has[chosen], self.values[chosen].float()
        if self.mask is None:
            return Modality(values.where(has[:, None], 0.0), None, has)
        mask = self.mask[chosen] & has[:, None]
        values = values.where(mask[..., None], 0.0)
        real = mask.any(dim=0).nonzero()
        longest = int(real.max()) + 1 if len(real) else 1
        return Modality(values[:, :longest], mask[:, :longest], has)


def concatenated(parts: Sequence[Modality]) -> Modality:
    """The samples of several files below each other, sequences padded to the longest."""
    if len(parts) == 1:
        return parts[0]
    has = torch.cat([part.has for part in parts])
    if parts[0].mask is None:
        return Modality(torch.cat([part.values for part in parts]), None, has)
    longest = max(part.values.shape[1] for part in parts)
    values = [F.pad(part.values, (0, 0, 0, longest - part.values.shape[1])) for part in parts]
    masks = [F.pad(part.mask, (0, longest - part.mask.shape[1])) for part in parts if part.mask is not None]
    return Modality(torch.cat(values), torch.cat(masks), has)


def spread_over(part: Modality, rows: Sequence[int]) -> Modality:
    """The modality of samples whose rows in `part` are these; -1: the sample lacks it."""
    found = torch.tensor(rows, dtype=torch.long)
    there, place = found >= 0, found.clamp(min=0)
    mask = None if part.mask is None else part.mask[place]
    return Modality(part.values[place], mask, part.has[place] & there)
