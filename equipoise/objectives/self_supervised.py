"""Losses between two views of the same images, without captions: SimCLR's and SimSiam's.

Chen et al. 2020, "A Simple Framework for Contrastive Learning of Visual Representations", Eq. 1 (NT-Xent).

    L = 1/2N Σ_a -log exp(z_a·z_b(a)/τ) / Σ_{c ≠ a} exp(z_a·z_c/τ),     z normalised, a and c over all 2N views

first, second [N, d] what a projector makes of the two views of N images; b(a) the other view of a's image; τ = 0.1. A
chunk of rows of the 2N × 2N logits exists at a time, and again for its gradient.

Chen & He 2021, "Exploring Simple Siamese Representation Learning", Eq. 4.

    L = -½ [ mean_i cos(p_i, sg(z'_i)) + mean_i cos(p'_i, sg(z_i)) ]        from -1, both alike, to 1

z, z' [N, d] the projected views, p, p' what is predicted from them; no gradient flows into z (sg), which is what keeps
all images from becoming one point (their §4.1).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

AT_ONCE = 1024  # rows of SimCLR's logits


def simclr(first: Tensor, second: Tensor, temperature: float, at_once: int = AT_ONCE) -> Tensor:
    views = F.normalize(torch.cat([first, second]), dim=1)
    chunks = torch.arange(len(views), device=views.device).split(at_once)
    if len(chunks) == 1:
        return _nt_xent(views, chunks[0], temperature) / len(views)
    costs = [checkpoint(_nt_xent, views, rows, temperature, use_reentrant=False) for rows in chunks]
    return torch.stack(costs).sum() / len(views)


def _nt_xent(views: Tensor, rows: Tensor, temperature: float) -> Tensor:
    """The sum over some rows."""
    logits = (views[rows] @ views.T / temperature).scatter(1, rows[:, None], -torch.inf)  # no view is its own negative
    return F.cross_entropy(logits, (rows + len(views) // 2) % len(views), reduction="sum")


def simsiam(projected: tuple[Tensor, Tensor], predicted: tuple[Tensor, Tensor]) -> Tensor:
    first = F.cosine_similarity(predicted[0], projected[1].detach(), dim=1).mean()
    second = F.cosine_similarity(predicted[1], projected[0].detach(), dim=1).mean()
    return -(first + second) / 2
