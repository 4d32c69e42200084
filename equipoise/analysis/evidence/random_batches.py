"""Pairs in random batches, as the field looks at them: each compared with those of its own batch and no others.

    p_i→ = exp(t s(u_i, v_i)) / Σ_j exp(t s(u_i, v_j))        p_i← = exp(t s(u_i, v_i)) / Σ_j exp(t s(u_j, v_i))

u_i, v_i the image and the text of pair i; j runs over the batch; t the logit scale. Another caption of the same image
counts as a stranger there, as it does in the papers.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from equipoise.analysis.noise import Pairs, Similarity

BATCH = 128  # of NCR, RCL, CRCL and GSC


def random_batches(count: int, size: int, seed: int) -> list[Tensor]:
    """The numbers below `count`, each in one batch of nearly equal ones, of `size` at most."""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    return list(order.tensor_split(max(1, math.ceil(count / size))))


def match_log_probabilities(points: Pairs, similarity: Similarity, scale: float, batches: list[Tensor]) -> Tensor:
    """log p_i→ and log p_i← of every text [2, M], in float64."""
    found = torch.zeros(2, len(points.texts), dtype=torch.float64)
    for rows in batches:
        images = points.images[points.image_of_text[rows]]
        logits = scale * similarity(images, points.texts[rows]).double()
        found[:, rows] = torch.stack([logits.log_softmax(dim).diagonal() for dim in (1, 0)])
    return found
