"""Columns of a modality on one scale: less their mean, by their standard deviation, both of the training data.

    x ← (x - μ) / σ          μ, σ [w] over the real steps of all training samples; a constant column is left at 0

They are part of the weights, so that a model reads raw measurements wherever it goes. What is not real stays 0, which
is the mean: so does a modality that is missing.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Standardise(nn.Module):
    mean: Tensor
    scale: Tensor

    def __init__(self, width: int):
        super().__init__()
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("scale", torch.ones(width))  # 1/σ

    @torch.no_grad()
    def measure(self, rows: Tensor) -> None:
        """Take mean and deviation from real steps [n, w]."""
        exact = rows.double()
        deviation = exact.std(0, unbiased=False)
        varied = deviation > 1e-6 * exact.abs().amax(0).clamp(min=1e-12)
        self.mean.copy_(exact.mean(0))
        self.scale.copy_(torch.where(varied, 1 / deviation.clamp(min=1e-12), 0.0))

    def forward(self, values: Tensor, mask: Tensor) -> Tensor:
        """Values [N, w] or [N, L, w] with their mask, [N] or [N, L]."""
        return ((values - self.mean) * self.scale).where(mask[..., None], 0.0)
