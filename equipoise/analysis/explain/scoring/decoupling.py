"""Do class tokens look at different things? One minus the mean cosine of their maps.

    decoupling = 1 - 2/(m(m - 1)) Σ_{k<l} cos(r_k, r_l)        0: all tokens the same map; 1: no place in common

r_k [S·S] relevance of places for the similarity of the k-th pair of class tokens. A number for what Sun & Li 2024 show
by pictures (Fig. 7). *Do not* read it alone: maps drawn at random are decoupled too, so it is beside that of an
untrained model and of random maps, and the best pointing of any token says whether they mean something.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def decoupling(maps: Tensor) -> Tensor:
    """[N] of the maps of m class tokens [N, m, S, S]; a map that is all 0 has nothing in common with any."""
    flat = F.normalize(maps.flatten(2), dim=-1)
    cosines = flat @ flat.transpose(1, 2)
    m = maps.shape[1]
    above = torch.triu_indices(m, m, 1, device=maps.device)
    return 1 - cosines[:, above[0], above[1]].mean(1)
