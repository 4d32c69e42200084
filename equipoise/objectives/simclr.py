"""Two views of an image find each other among all views of the batch: the loss of SimCLR.

Chen et al. 2020, "A Simple Framework for Contrastive Learning of Visual Representations", Eq. 1 (NT-Xent).

    L = 1/2N Σ_a -log exp(z_a·z_b(a)/τ) / Σ_{c ≠ a} exp(z_a·z_c/τ),     z normalised, a and c over all 2N views

first, second [N, d] what a projector makes of the two views of N images; b(a) the other view of a's image; τ = 0.1.
Some rows of the 2N × 2N logits exist at a time, and again for their gradient.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

AT_ONCE = 1024  # rows


def simclr(first: Tensor, second: Tensor, temperature: float, at_once: int = AT_ONCE) -> Tensor:
    views = F.normalize(torch.cat([first, second]), dim=1)
    rows = torch.arange(len(views), device=views.device).split(at_once)
    if len(rows) == 1:
        return _cost(views, rows[0], temperature) / len(views)
    parts = [checkpoint(_cost, views, some, temperature, use_reentrant=False) for some in rows]
    return torch.stack(parts).sum() / len(views)


def _cost(views: Tensor, rows: Tensor, temperature: float) -> Tensor:
    logits = (views[rows] @ views.T / temperature).scatter(1, rows[:, None], -torch.inf)  # no view is its own negative
    return F.cross_entropy(logits, (rows + len(views) // 2) % len(views), reduction="sum")
