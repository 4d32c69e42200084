"""Grad-CAM: features weighted by how much the score depends on each, on average over places.

Selvaraju et al. 2017, "Grad-CAM: Visual Explanations from Deep Networks via Gradient-based Localization", Eq. 1-2.

    α_k = 1/L Σ_i ∂s/∂F_ik        (1)
    r_i = ReLU(Σ_k α_k F_ik)      (2)

s similarity of a pair, F [L, w] features of the places in the last layer that tells them apart (`places.py`), class
tokens left out. On words as on patches, as Sun & Li 2024 (Fig. 7) do: means are over what is a word.
"""

from __future__ import annotations

from torch import Tensor

from equipoise.analysis.explain.trace import Trace

cites = ("selvaraju2017gradcam",)


def grad_cam(trace: Trace) -> Tensor:
    """Relevance of places [N, L]."""
    real = trace.real[..., None].to(trace.features.dtype)
    alpha = (trace.features_grad * real).sum(1) / real.sum(1).clamp(min=1)
    return (trace.features @ alpha[..., None])[..., 0].relu()
