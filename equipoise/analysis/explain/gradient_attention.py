"""Attention times its gradient, passed on from layer to layer.

Chefer et al. 2021, "Generic Attention-model Explainability for Interpreting Bi-Modal and Encoder-Decoder Transformers",
Eq. 5-6.

    E_l = 1/h Σ_heads ReLU(∂s/∂A_l ⊙ A_l)        (5)
    R ← R + E_l R, from R = I                    (6), over the last `layers` layers
    r_j = Σ_i ρ_i R_ij

ρ_i is the share of row i in what is read (`Layer.readers`): 1 for the class token where one is read, as the paper has
it, and spread over patches or words where a readout reads those. A pool whose query is no token gives R ← E R. The
authors' code for CLIP takes the last layer alone, as earlier ones overpower it in towers of twelve; here it is the last
two, which point better on scenes, at words above all (docs/explain.md).
"""

from __future__ import annotations

import torch
from torch import Tensor

from equipoise.analysis.explain.trace import Layer, Trace

cites = ("chefer2021generic",)
LAYERS = 2  # the last ones


def gradient_attention(trace: Trace, layers: int = LAYERS) -> Tensor:
    """Relevance of places [N, L]."""
    chosen = trace.layers[-layers:]
    size = chosen[0].weights.shape[-1]
    passed = torch.eye(size, dtype=chosen[0].weights.dtype, device=chosen[0].weights.device)
    passed = passed.expand(len(chosen[0].weights), -1, -1)
    for layer in chosen:
        step = weighted(layer) @ passed
        passed = passed + step if step.shape == passed.shape else step
    read = chosen[-1].readers[:, None] @ passed
    return read[:, 0, trace.columns]


def weighted(layer: Layer) -> Tensor:
    """E [N, Lq, Lk]."""
    return (layer.grad * layer.weights).relu().mean(1)
