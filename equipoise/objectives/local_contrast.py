"""A sample against parts of samples: its own parts shall be closer to it than those of others.

Yang et al. 2022, "Vision-Language Pre-Training with Triple Contrastive Learning" (TCL), Eq. 6 (local mutual information
maximisation).

    L = mean_i mean_{p real} -log [ e(x_i, l_ip) / (e(x_i, l_ip) + Σ_{j ≠ i} Σ_{q real} e(x_i, l_jq)) ]

x [N, d] points of whole samples, l [N, P, d] points of parts (`heads/local_points.py`), e = exp(exp(t)·s). The other
parts of the same sample are neither: no sample is held against itself. Some rows of the N × N·P logits exist at a
time, and again for the gradient. A sample without a real part costs nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from equipoise.kernels import Scoring

AT_ONCE = 2**22  # logits


def local_contrast(
    points: Tensor, parts: Tensor, real: Tensor | None, scoring: Scoring, at_once: int = AT_ONCE
) -> Tensor:
    """The loss of `points` [N, d] and `parts` [N, P, d], of which `real` [N, P] count; all do where it is None."""
    parts = parts.detach().to(points.dtype)
    real = torch.ones(parts.shape[:2], dtype=torch.bool, device=parts.device) if real is None else real > 0
    rows = torch.arange(len(points), device=points.device).split(max(1, at_once // real.numel()))
    if len(rows) == 1:
        return _costs(points, parts, real, scoring, rows[0]) / len(points)
    costs = [checkpoint(_costs, points, parts, real, scoring, chunk, use_reentrant=False) for chunk in rows]
    return torch.stack(costs).sum() / len(points)


def _costs(points: Tensor, parts: Tensor, real: Tensor, scoring: Scoring, rows: Tensor) -> Tensor:
    """The sum over some rows."""
    exact = torch.promote_types(points.dtype, torch.float32)
    scale = torch.as_tensor(scoring.log_scale, dtype=exact, device=points.device).exp()
    similarity = scoring.space.similarity(points[rows], parts.flatten(0, 1))
    logits = scale * similarity.unflatten(1, parts.shape[:2])  # [R, N, P]
    own = torch.arange(len(points), device=rows.device) == rows[:, None]
    counted = real[rows]
    mine = logits[torch.arange(len(rows), device=rows.device), rows]
    others = logits.masked_fill(own[..., None] | ~real, torch.finfo(exact).min).flatten(1).logsumexp(1)
    costs = torch.logaddexp(mine, others[:, None]) - mine
    return (torch.where(counted, costs, 0).sum(1) / counted.sum(1).clamp(min=1)).sum()
