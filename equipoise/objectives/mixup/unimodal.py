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

Where pairs have weights w [N]: a match of V and L belongs to the pair of the side that is not mixed, and counts by its
weight (λ w_i and (1-λ) w_{N-1-i} of row i). Row and column i of VL are made of two pairs, and count by
λ w_i + (1-λ) w_{N-1-i}.
"""

from __future__ import annotations

import torch
from torch import Tensor

from equipoise.forms import CrossEntropy
from equipoise.kernels import Scoring
from equipoise.spaces import Space, geodesic_mix, override_scores
from equipoise.targets import Mirrored, OneHot
from equipoise.targets.weighted import weighted_matches, weighted_pairs


def v_mix(
    image: Tensor,
    text: Tensor,
    lam: float,
    scoring: Scoring,
    *,
    original_negatives: bool = True,
    weights: Tensor | None = None,
    impl: str = "auto",
) -> Tensor:
    """V-Mix; with texts first, L-Mix."""
    form, space = CrossEntropy(), scoring.space
    target = weighted_matches(Mirrored(lam, 1 - lam), weights)
    mixed = mirror_mix(image, lam, space)
    if not original_negatives:
        return scoring.contrast(mixed, text, target=target, form=form, impl=impl)
    own = torch.arange(len(image), device=image.device)
    overrides = [(own, space.pairwise(mixed, text)), (own.flip(0), space.pairwise(mixed, text.flip(0)))]
    rows, cols, scorer = override_scores(image, text, overrides, of=space)
    return scoring.contrast(rows, cols, scorer=scorer, target=target, form=form, impl=impl)


def vl_mix(
    image: Tensor,
    text: Tensor,
    lam: float,
    scoring: Scoring,
    *,
    original_negatives: bool = True,
    weights: Tensor | None = None,
    impl: str = "auto",
) -> Tensor:
    form, space = CrossEntropy(), scoring.space
    images, texts = (mirror_mix(points, lam, space) for points in (image, text))
    mixed = None if weights is None else lam * weights + (1 - lam) * weights.flip(0)
    if not original_negatives:
        target = weighted_pairs(Mirrored(1.0, 1.0), mixed)
        return scoring.contrast(images, texts, target=target, form=form, impl=impl)
    own = torch.arange(len(image), device=image.device)
    rows, cols, scorer = override_scores(image, text, [(own, space.pairwise(images, texts))], of=space)
    return scoring.contrast(rows, cols, scorer=scorer, target=weighted_pairs(OneHot(), mixed), form=form, impl=impl)


def mirror_mix(points: Tensor, lam: float, space: Space) -> Tensor:
    """The mix of every point with the one at its place in the batch read backwards."""
    return geodesic_mix(points, points.flip(0), lam, space=space)
