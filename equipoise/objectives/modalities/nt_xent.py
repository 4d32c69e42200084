"""NT-Xent between two codes of every sample: the codes of both kinds are negatives, of one's own kind too.

Chen et al. 2020, "A Simple Framework for Contrastive Learning of Visual Representations", Eq. 1.

    L = 1/2N Σ_a -log exp(z_a) / Σ_{c ≠ a} exp(z_ac),     z_ac = exp(t) s(x_a, x_c),   z_a = z_{a b(a)}

x the 2N points of both kinds, b(a) the other point of a's sample. CLIP's loss has negatives of the other kind alone.
`objectives/self_supervised.py` has the same formula for vectors at a constant temperature; this one is of points of any
space, by the engines of `kernels/`: rows are [first, second] and columns [second, first], so that the positive is on
the diagonal, and the similarity of a point with itself is overridden by one that no sum can see.
"""

from __future__ import annotations

import torch
from torch import Tensor

from equipoise.forms import CrossEntropy
from equipoise.kernels import Scoring
from equipoise.spaces import override_scores
from equipoise.targets import OneHot

REMOVED = -1e30  # a similarity whose exponential is 0 at any scale, and that a float32 still holds when scaled


def nt_xent(first: Tensor, second: Tensor, scoring: Scoring, *, impl: str = "auto") -> Tensor:
    """The loss of points [N, d] and [N, d]; row i of both is of sample i. 0 for a single sample."""
    scoring, count = scoring.without_bias(), len(first)
    itself = torch.arange(2 * count, device=first.device).roll(count)
    removed = torch.full((2 * count,), REMOVED, device=first.device)
    rows, cols, scorer = override_scores(
        torch.cat([first, second]), torch.cat([second, first]), [(itself, removed)], of=scoring.space
    )
    return scoring.contrast(rows, cols, scorer=scorer, target=OneHot(), form=CrossEntropy(direction="rows"), impl=impl)
