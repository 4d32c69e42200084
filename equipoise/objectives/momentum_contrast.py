"""Points against those that the moving average of the weights makes: of the same batch, and of a queue of former ones.

He et al. 2020 (MoCo), Eq. 1; Li et al. 2021, "Align before Fuse" (ALBEF), Eq. 1, 2 and 6.

    L = mean_i -Σ_j q_ij log softmax_j(exp(t)·s(x_i, k_j))        j over the batch's keys and the queue's
    q_ij = α softmax_j(exp(t)·s(x'_i, k_j)) + (1 - α) [j = i]

x [N, d] points of the weights that are trained, x' the same of their moving average, k [N + K, d] keys by the moving
average: the batch's N in the order of x, and K of a queue. No gradient flows into keys or q. Without α the target is
the sample's own key alone. Any space, any temperature: it is a contrast as others are (`kernels/contrast.py`). Where
pairs have weights, row i counts by that of pair i.
"""

from __future__ import annotations

import torch
from torch import Tensor

from equipoise.forms import CrossEntropy
from equipoise.kernels import Scoring
from equipoise.targets import OneHot, Target
from equipoise.targets.guide import GuideSimilarity
from equipoise.targets.softened import SoftenedBy
from equipoise.targets.weighted import WeightedRows


def momentum_contrast(
    points: Tensor,
    keys: Tensor,
    queue: Tensor | None,
    scoring: Scoring,
    *,
    taught: Tensor | None = None,
    alpha: float = 0.0,
    weights: Tensor | None = None,
    impl: str = "auto",
) -> Tensor:
    """The loss of `points` [N, d] among `keys` [N, d] and a `queue` [K, d]; `taught` are x' [N, d], where α is not 0,
    `weights` [N] those of pairs."""
    keys = keys.detach().to(points.dtype)
    keys = keys if queue is None else torch.cat([keys, queue.detach().to(points.dtype)])
    target: Target = OneHot()
    if alpha:
        assert taught is not None
        exact = torch.promote_types(points.dtype, torch.float32)
        t = torch.as_tensor(scoring.log_scale, dtype=exact, device=points.device).detach()
        seen = ((1.0, GuideSimilarity(taught.detach().to(points.dtype), keys, t, scoring.space)),)
        target = SoftenedBy(alpha, OneHot(), seen, seen)
    target = target if weights is None else WeightedRows(target, weights)
    return scoring.contrast(points, keys, target=target, form=CrossEntropy(direction="rows"), impl=impl)
