"""LeGrad: the gradient of attention alone, over heads, queries and the last layers.

Bousselham et al. 2025, "LeGrad: An Explainability Method for Vision Transformers via Feature Formation Sensitivity".

    r_j = Σ_l 1/(h·Lq) Σ_heads Σ_i ReLU(∂s/∂A_l,ij) [i attends to j]

The paper reads the pair's score anew after every layer; here it is the model's own score for all of them, so that any
readout and space is explained as it is. By o = A v, ∂s/∂A_ij = <∂s/∂o_i, v_j>: summed over heads before the ReLU it is
Grad-ECLIP without its weights (Zhao et al. 2024), with the model's own heads.
"""

from __future__ import annotations

from torch import Tensor

from equipoise.analysis.explain.trace import Layer, Trace

cites = ("bousselham2025legrad",)
LAYERS = 2  # the last ones, as the authors' code has it


def legrad(trace: Trace, layers: int = LAYERS) -> Tensor:
    """Relevance of places [N, L]."""
    return sum(
        (sensitivity(layer)[:, trace.columns] for layer in trace.layers[-layers:]), start=trace.features.new_zeros(())
    )


def sensitivity(layer: Layer) -> Tensor:
    """Mean over heads and queries [N, Lk]; a pair that is masked has a gradient but no say."""
    return (layer.grad.relu() * (layer.weights > 0)).mean((1, 2))
