"""Grad-ECLIP: the values that the last layer passes on, along the gradient, weighted by how well keys fit.

Zhao et al. 2024, "Gradient-based Visual Explanation for Transformer-based CLIP".

    λ_ij = cos(q_i, k_j), from the least (0) to the largest (1) over places j of row i
    r_j = ReLU(Σ_i λ_ij Σ_heads <∂s/∂o_i, v_j>)

q_i, k_j over all heads side by side; i are the rows that the score depends on (one, where a class token is read). The
authors' code computes the last layer anew with a single head, which explains another model; here heads are the model's
own, and by o = A v the inner sum is that of ∂s/∂A_ij over heads.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from equipoise.analysis.explain.trace import Layer, Trace

cites = ("zhao2024gradeclip",)


def grad_eclip(trace: Trace) -> Tensor:
    """Relevance of places [N, L]."""
    layer = trace.layers[-1]
    passed = (layer.grad * (layer.weights > 0)).sum(1)[:, :, trace.columns]
    return (fit(layer, trace) * passed).sum(1).relu()


def fit(layer: Layer, trace: Trace) -> Tensor:
    """λ [N, Lq, L]."""
    q, k = (F.normalize(x.transpose(1, 2).flatten(2), dim=-1) for x in (layer.queries, layer.keys))
    cosines = q @ k[:, trace.columns].transpose(1, 2)
    hidden = ~trace.real[:, None]
    least = cosines.masked_fill(hidden, torch.inf).amin(-1, keepdim=True)
    largest = cosines.masked_fill(hidden, -torch.inf).amax(-1, keepdim=True)
    return (cosines - least) / (largest - least).clamp(min=torch.finfo(q.dtype).eps)
