"""Images against the prompts of all classes, and prompts against the images of a batch.

Oh et al. 2023, "Geodesic Multi-Modal Mixup for Robust Fine-Tuning", App. A.2.

    L = ½ [ mean_i CE_i + mean_{c in y} CE_c ]
    CE_i = -log softmax_c(τ s(I_i, T_c)) at y_i                                            over all C classes
    CE_c = -1/n_c Σ_{i: y_i = c} log softmax_i(τ s(T_c, I_i))                              over the batch's images

I [N, d] images, y [N] their classes, n_c how many are of class c; T [C, d] pivots, the points of all classes' prompts;
τ = exp(t). The paper names the label matrix and neither its normalisation nor its mean: matches of a class share its
row evenly, and the mean is over the classes that the batch holds, for a class without images says nothing. With one
image per class, and no class without, this is CLIP's loss (`clip.py`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from equipoise.forms import CrossEntropy
from equipoise.kernels import Scoring
from equipoise.targets import ClassMatches, Target

ROWS = CrossEntropy(direction="rows")


def class_contrast(image: Tensor, pivots: Tensor, labels: Tensor, scoring: Scoring, *, impl: str = "auto") -> Tensor:
    def contrast(rows: Tensor, cols: Tensor, target: Target) -> Tensor:
        return scoring.contrast(rows, cols, target=target, form=ROWS, impl=impl)

    all_classes, present = torch.arange(len(pivots), device=labels.device), labels.unique()
    to_pivots = contrast(image, pivots, ClassMatches(labels, all_classes))
    to_images = contrast(pivots[present], image, ClassMatches(present, labels))
    return (to_pivots + to_images) / 2
