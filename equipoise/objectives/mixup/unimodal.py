"""V-, L- and VL-Mix: images, texts or both mixed with those of the same batch read backwards.

Oh et al. 2023, "Geodesic Multi-Modal Mixup for Robust Fine-Tuning", App. B (Algorithm 1).

    Ĩ_i = m_λ(I_i, I_{N-1-i})        T̃_j = m_λ(T_j, T_{N-1-j})                          i, j from 0
    V    Z_ij = s(Ĩ_i, T_j) where i = j or i + j = N-1, else s(I_i, T_j)      target λ·[i = j] + (1-λ)·[i + j = N-1]
    L    Z_ij = s(I_i, T̃_j) there, else s(I_i, T_j)                            the same target
    VL   Z_ij = s(Ĩ_i, T̃_i) where i = j, else s(I_i, T_j)                      target [i = j]
    L_mix = symmetric cross-entropy of exp(t)·Z with the target

image, text [N, d] points; one λ for both sides of VL. L-Mix is "omitted" in the pseudo-code: it is V-Mix with images
and texts exchanged. With `original_negatives = False`, as the released code runs, all of Z is made of mixes; VL then
has the target [i = j] + [i + j = N-1], whose rows sum to 2.
"""

from __future__ import annotations

import torch
from torch import Tensor

from equipoise.forms import CrossEntropy
from equipoise.kernels import contrast
from equipoise.spaces import Space, geodesic_mix, pinned
from equipoise.targets import OneHot, Reflected, Target


def v_mix(
    image: Tensor,
    text: Tensor,
    lam: float,
    *,
    space: Space,
    log_scale: Tensor | float,
    original_negatives: bool = True,
    impl: str = "auto",
) -> Tensor:
    """L-Mix is this with texts first."""
    mixed, target = _with_mirror(image, lam, space), Reflected(lam, 1 - lam)
    if not original_negatives:
        return _compared(mixed, text, space, target, log_scale, impl)
    place = torch.arange(len(image), device=image.device)
    pins = [(place, space.pairwise(mixed, text)), (place.flip(0), space.pairwise(mixed, text.flip(0)))]
    rows, cols, there = pinned(image, text, pins, space=space)
    return _compared(rows, cols, there, target, log_scale, impl)


def vl_mix(
    image: Tensor,
    text: Tensor,
    lam: float,
    *,
    space: Space,
    log_scale: Tensor | float,
    original_negatives: bool = True,
    impl: str = "auto",
) -> Tensor:
    images, texts = (_with_mirror(points, lam, space) for points in (image, text))
    if not original_negatives:
        return _compared(images, texts, space, Reflected(1.0, 1.0), log_scale, impl)
    place = torch.arange(len(image), device=image.device)
    rows, cols, there = pinned(image, text, [(place, space.pairwise(images, texts))], space=space)
    return _compared(rows, cols, there, OneHot(), log_scale, impl)


def _with_mirror(points: Tensor, lam: float, space: Space) -> Tensor:
    return geodesic_mix(points, points.flip(0), lam, space=space)


def _compared(rows: Tensor, cols: Tensor, space: Space, target: Target, log_scale: Tensor | float, impl: str) -> Tensor:
    return contrast(rows, cols, space=space, target=target, form=CrossEntropy(), log_scale=log_scale, impl=impl)
