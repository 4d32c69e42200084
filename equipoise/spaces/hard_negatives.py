"""Hardness of a batch: for every point, its match, its closest negative, and the share of negatives closer than the
match.

Oh et al. 2023, "Geodesic Multi-Modal Mixup for Robust Fine-Tuning", App. C.4, Fig. 12-17.

    positive_i = s(u_i, v_i)        closest_i = max_{j≠i} s(u_i, v_j)
    above_i    = |{j≠i : s(u_i, v_j) > positive_i}| / (N-1)

u, v [N, d] points; the match of u_i may be another column than i (`match`). A chunk of rows of the N × N similarities
exists at a time. No gradients.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from equipoise.spaces.scorer import Scorer, paired_similarity

AT_ONCE = 1 << 22  # similarities that exist at the same time


class Hardness(NamedTuple):
    positive: Tensor  # [N]
    closest: Tensor
    above: Tensor


@torch.no_grad()
def hardness(
    rows: Tensor,
    cols: Tensor,
    *,
    space: Scorer,
    positive: Tensor | None = None,
    match: Tensor | None = None,
    matched: bool = True,
) -> Hardness:
    """Hardness of every row among all columns. Its match is the column at its place, or at `match` [N], and as close as
    `positive` [N] where that is given. Not `matched`: all columns are negatives, and `positive` must be given."""
    match = torch.arange(len(rows), device=rows.device) if match is None else match
    positive = paired_similarity(space, rows, cols[match]) if positive is None else positive
    closest, above = [], []
    for chunk in torch.arange(len(rows), device=rows.device).split(max(1, AT_ONCE // len(cols))):
        negatives = space.similarity(rows[chunk], cols)
        negatives = negatives.scatter(1, match[chunk, None], -torch.inf) if matched else negatives
        closest.append(negatives.amax(1))
        above.append((negatives > positive[chunk, None]).sum(1).double() / max(1, len(cols) - matched))
    return Hardness(positive, torch.cat(closest), torch.cat(above))
