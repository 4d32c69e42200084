"""Saliency by the spectral residual: where a picture departs from its own average spectrum.

Hou and Zhang 2007, "Saliency Detection: A Spectral Residual Approach", Eq. 6-10.

    L = log |F(x)|        R = L - h₃ * L        S = g * |F⁻¹( exp(R + i·arg F(x)) )|²

x [N, S, S] grey; h₃ the 3 × 3 mean, on a spectrum that repeats itself; g a Gaussian of σ = 2.5 pixels. Scaled to
mean 1, so that pictures compare.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

SIGMA, REACH = 2.5, 7  # of the Gaussian, in pixels


def spectral_residual(grey: Tensor) -> Tensor:
    """Saliency maps [N, S, S], at least 0, of grey images [N, S, S]."""
    spectrum = torch.fft.fft2(grey)
    log = spectrum.abs().clamp(min=1e-6).log()
    residual = log - F.avg_pool2d(F.pad(log[:, None], (1, 1, 1, 1), mode="circular"), 3, 1)[:, 0]
    energy = torch.fft.ifft2(torch.polar(residual.exp(), spectrum.angle())).abs().square()
    smooth = _blurred(energy)
    return smooth / smooth.mean((1, 2), keepdim=True)


def _blurred(images: Tensor) -> Tensor:
    weights = torch.exp(-(torch.arange(-REACH, REACH + 1) ** 2) / (2 * SIGMA**2))
    weights = weights / weights.sum()
    padded = F.pad(images[:, None], (REACH,) * 4, mode="replicate")
    return F.conv2d(F.conv2d(padded, weights.view(1, 1, 1, -1)), weights.view(1, 1, -1, 1))[:, 0]
