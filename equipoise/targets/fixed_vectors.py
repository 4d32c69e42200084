"""One fixed vector a sample from what a detector found: guides that no training moves.

    region_vectors   r_i = mean of the features [w] of its regions, each of length 1
    tag_vectors      a_i = Σ over the words (token ids k) of its tags of e_k        e_k ∈ {-1, 1}^512 / √512

e_k are drawn once for all from k itself, so that <a_i, a_j> is the number of words that i and j have in common, up to
about √(words)/√512 (feature hashing; Weinberger et al. 2009). Start, end and comma are in every sentence and tell
nothing apart; they only move all cosines up, which a softmax does not see but for the scale (`guide_scale.py`).
Made of the side data `regions`, `tags` and their masks: scenes with `data.detector.regions`, files with `data.regions`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn import functional as F

from equipoise.data.source import REGION_MASK, REGIONS, TAGS, TAGS_MASK
from equipoise.types import Batch, UserError

REGION_VECTORS, TAG_VECTORS = "region_vectors", "tag_vectors"
WIDTH = 512
MIX = (0x9E3779B1, 0x85EBCA77)  # odd multipliers that spread consecutive numbers over 32 bits


def region_vectors(batch: Batch) -> Tensor:
    """[N, w]; zero for a sample without regions."""
    regions, mask = _required(batch, REGIONS), _required(batch, REGION_MASK)
    unit = F.normalize(regions.float(), dim=-1) * mask[..., None]
    return unit.sum(1) / mask.sum(1, keepdim=True).clamp(min=1)


def tag_vectors(batch: Batch) -> Tensor:
    """[N, 512]."""
    ids, mask = _required(batch, TAGS), _required(batch, TAGS_MASK)
    ids, mask = ids[:, : int(mask.sum(1).max())], mask[:, : int(mask.sum(1).max())]
    total = torch.zeros(len(ids), WIDTH, device=ids.device)
    for place in range(ids.shape[1]):  # [N, L, 512] would be large, and sentences of tags are short
        total += word_vectors(ids[:, place]) * mask[:, place, None]
    return total


def word_vectors(ids: Tensor) -> Tensor:
    """e_k [K, 512] of token ids [K]: signs from a hash of the id and the place, the same on every machine."""
    places = torch.arange(WIDTH, device=ids.device)
    mixed = (ids.long()[:, None] + 1) * MIX[0] + (places + 1) * MIX[1]
    for shift, factor in ((15, MIX[1]), (13, MIX[0]), (16, 1)):
        mixed = mixed & 0xFFFFFFFF
        mixed = (mixed ^ (mixed >> shift)) * factor
    return ((mixed >> 7) & 1).float().mul_(2).sub_(1) / WIDTH**0.5


def _required(batch: Batch, name: str) -> Tensor:
    if name not in batch.side:
        raise UserError(
            f"the guide looks at {name}, but the data has none; choose another guide, or data that has regions "
            "(data.detector.regions for scenes, data.regions for files)"
        )
    return batch.side[name]


# By name: how the vectors are made, and of which side data (whose `has_...` says which samples have any).
FIXED: Mapping[str, tuple[Callable[[Batch], Tensor], str]] = {
    REGION_VECTORS: (region_vectors, REGIONS),
    TAG_VECTORS: (tag_vectors, TAGS),
}
