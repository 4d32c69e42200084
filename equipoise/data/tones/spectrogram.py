"""Log-mel spectrograms of sounds, as grey pictures that an image encoder reads.

    P[f, t] = |STFT[f, t]|² · 4 / (Σ w)²        a sine of amplitude 1 has power 1 where it is
    mel(f) = 2595 log10(1 + f / 700)            triangles of equal width in mel, from 0 to half the rate
    picture = 255 · clip(1 + 10 log10(Σ_f M[m, f] P[f, t]) / RANGE, 0, 1)

Time goes to the right, pitch upwards. Gong et al. 2021, "AST: Audio Spectrogram Transformer", read such by a vision
transformer, and Wu et al. 2023 (CLAP) put them beside texts. The three channels are equal: a patch map of three then
does what one of a single channel does whose weights are their sum.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from equipoise.types import UserError

WINDOW = 512  # samples
SIDE = 64  # rows and columns; a larger or smaller picture is this one, resized
RANGE = 70.0  # decibels from black to white


def log_mel(waves: Tensor, rate: int, size: int = SIDE) -> Tensor:
    """Pictures uint8 [N, 3, size, size] of sounds [N, samples], with `rate` samples a second, between -1 and 1."""
    if waves.ndim != 2 or waves.shape[1] < WINDOW:
        raise UserError(f"sounds have the shape {list(waves.shape)}; give [N, samples], at least {WINDOW} of them")
    if not bool(waves.isfinite().all()):
        raise UserError("sounds hold numbers that are not finite; mend or leave out those samples")
    if not len(waves):  # of which MKL knows no transform
        return torch.empty(0, 3, size, size, dtype=torch.uint8, device=waves.device)
    power = mel_filters(rate).to(waves) @ _power(waves.float())
    decibels = 10 * power.clamp(min=1e-12).log10()
    grey = (1 + decibels / RANGE).clamp(0, 1).flip(1)[:, None]  # [N, 1, SIDE, SIDE]
    if size != SIDE:
        grey = F.interpolate(grey, (size, size), mode="bilinear", antialias=True, align_corners=False)
    return (255 * grey).round().clamp(0, 255).to(torch.uint8).expand(-1, 3, -1, -1)


def _power(waves: Tensor) -> Tensor:
    """P [N, WINDOW / 2 + 1, SIDE]: frames whose middles lie evenly over the sound."""
    window = torch.hann_window(WINDOW, device=waves.device)
    hop = max(1, waves.shape[1] // SIDE)
    padded = F.pad(waves, (0, max(0, hop * SIDE - waves.shape[1])))
    found = torch.stft(padded, WINDOW, hop, window=window, center=True, pad_mode="constant", return_complex=True)
    return found[..., :SIDE].abs().square() * (4 / window.sum().square())


def mel_filters(rate: int, rows: int = SIDE) -> Tensor:
    """M [rows, WINDOW / 2 + 1], the lowest first."""

    def hertz(mel: Tensor) -> Tensor:
        return 700 * (10 ** (mel / 2595) - 1)

    top = 2595 * math.log10(1 + rate / 2 / 700)
    edges = hertz(torch.linspace(0, top, rows + 2, dtype=torch.float64))
    bins = torch.arange(WINDOW // 2 + 1, dtype=torch.float64) * rate / WINDOW
    low, middle, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    rising, falling = (bins - low) / (middle - low), (high - bins) / (high - middle)
    return torch.minimum(rising, falling).clamp(min=0).float()
