"""How hard a batch is: for every point, its match, its closest negative, and how many negatives are closer than the
match.

Oh et al. 2023, "Geodesic Multi-Modal Mixup for Robust Fine-Tuning", App. C.4, Fig. 12-17.

    positive_i = s(u_i, v_i)        closest_i = max_{j≠i} s(u_i, v_j)
    above_i    = |{j≠i : s(u_i, v_j) > positive_i}| / (N-1)

u, v [N, d] points; the match of u_i may stand elsewhere than at i (`match`). Some rows of the N × N similarities exist
at a time. No gradients.
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
    """Of every row among all columns, of which the one at its place, or at `match` [N], is its match; `positive` where
    that is not as close to it as `space` says. Not `matched`: the matches are elsewhere, and all columns are
    negatives."""
    match = torch.arange(len(rows), device=rows.device) if match is None else match
    positive = paired_similarity(space, rows, cols[match]) if positive is None else positive
    closest, above = [], []
    for some in torch.arange(len(rows), device=rows.device).split(max(1, AT_ONCE // len(cols))):
        others = space.similarity(rows[some], cols)
        others = others.scatter(1, match[some, None], -torch.inf) if matched else others
        closest.append(others.amax(1))
        above.append((others > positive[some, None]).sum(1).double() / max(1, len(cols) - matched))
    return Hardness(positive, torch.cat(closest), torch.cat(above))
