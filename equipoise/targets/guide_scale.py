"""The scale of a guide by what it should leave to the match.

    find s:   mean_i p_ii(s) = p*        p_ij(s) = softmax_j(s · g_ij)

g [R, N] similarities of R samples with all N, each with itself at its own place; p* the wanted share of the match. A
guide's similarities may lie anywhere: cosines of raw pixels all near 0.99, those of a trained model from -0.2 to 1. A
softmax sees their differences alone, and the scale decides how large these count. Shared with the model, p_ii is often
0.99, and a softened target is then a hard one (`guide_health.py`); by p* the target keeps 1 - β (1 - p*) for the match
whatever the guide is made of. p_ii rises with s where nothing is closer to a sample than itself; bisection of log s
between its bounds, which are the answer where no scale gives p*.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

LEAST, MOST = 1e-3, 1e5
HALVINGS = 40  # log s to 2e-11
ROWS = 256  # samples looked at, at most; with all others of the batch


@torch.no_grad()
def log_scale_for(similarity: Tensor, wanted: float, known: Tensor | None = None) -> Tensor:
    """log s for similarities [R, N] of the first R of N samples, of which `known` [N] have a guide; a scalar."""
    exact = similarity.double()
    rows = torch.ones(len(exact), device=exact.device) if known is None else known[: len(exact)].to(exact)
    low, high = (exact.new_tensor(math.log(bound)) for bound in (LEAST, MOST))
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        share = (middle.exp() * exact).softmax(dim=1).diagonal()
        too_little = (rows * share).sum() < wanted * rows.sum()
        low, high = torch.where(too_little, middle, low), torch.where(too_little, high, middle)
    return (low + high) / 2
