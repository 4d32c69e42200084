"""The weight of each pair of a batch, where its source weighs captions (`KeptSource`)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from equipoise.data.source import Source

PAIR_WEIGHT = "pair_weight"  # in a batch's `side`: [N]; `targets/weighted.py` counts pairs by it


def pair_weights(source: Source, indices: Sequence[int], draws: Sequence[float]) -> dict[str, Tensor]:
    """The side data of the captions that the draws pick; nothing where the source weighs none."""
    weights_of = getattr(source, "caption_weights", None)
    if weights_of is None:
        return {}
    weights = map(weights_of, indices)
    drawn = [own[int(draw * len(own))] for own, draw in zip(weights, draws, strict=True)]
    return {PAIR_WEIGHT: torch.tensor(drawn, dtype=torch.float32)}
