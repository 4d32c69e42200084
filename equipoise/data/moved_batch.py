"""A batch on its way to a device. What the processor will want to know of it is read before it leaves."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch

from equipoise.data.moved import moved
from equipoise.data.source import REGION_MASK, TAGS_MASK, TEXT_VIEW2_MASK
from equipoise.types import Batch, Lengths

MASKS = (REGION_MASK, TAGS_MASK, TEXT_VIEW2_MASK)  # in a batch's side data, of tokens that a tower packs


def moved_batch(batch: Batch, device: torch.device | str) -> Batch:
    """The batch on `device`, with the lengths of texts and regions, which are known before it leaves."""
    masks = {"mask": batch.mask, **{name: batch.side[name] for name in MASKS if name in batch.side}}
    lengths = {name: known for name, mask in masks.items() if (known := Lengths.of(mask)) is not None}
    return replace(batch.map(partial(moved, device=device)), lengths=lengths)
