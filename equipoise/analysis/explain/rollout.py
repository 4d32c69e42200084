"""Attention rollout: attention multiplied through the layers, without any gradient.

Abnar & Zuidema 2020, "Quantifying Attention Flow in Transformers", §3.

    A'_l = rows of (1/h Σ_heads A_l + I), each divided by its sum
    R = A'_last ... A'_2 A'_1,       r_j = Σ_i ρ_i R_ij

ρ_i is the share of row i in what is read (`Layer.readers`): 1 for the class token where one is read. A pool whose query
is no token has no I. The same map for every text, so it is a floor to stand others on, and no explanation of a pair.
"""

from __future__ import annotations

import torch
from torch import Tensor

from equipoise.analysis.explain.trace import Trace

cites = ("abnar2020rollout",)


def rollout(trace: Trace) -> Tensor:
    """Relevance of places [N, L]."""
    rolled: Tensor | None = None
    for layer in trace.layers:
        step = layer.weights.mean(1)
        if step.shape[1] == step.shape[2]:
            step = step + torch.eye(step.shape[1], dtype=step.dtype, device=step.device)
            step = step / step.sum(-1, keepdim=True)
        rolled = step if rolled is None else step @ rolled
    assert rolled is not None
    read = trace.layers[-1].readers[:, None] @ rolled
    return read[:, 0, trace.columns]
