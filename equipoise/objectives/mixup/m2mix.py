"""m²-Mix: negatives between image and text, harder than any the batch holds.

Oh et al. 2023, "Geodesic Multi-Modal Mixup for Robust Fine-Tuning", App. B (Algorithm 1), App. D (Eq. 8).

    L = ½ [ mean_i CE_i(A) + mean_i CE_i(B) ],   CE_i(A) = -log [ exp(τ₂ s_i) / (exp(τ₂ s_i) + Σ_{j≠i} exp(τ₂ A_ij)) ]

    reading       A_ij                  B_ij                                              s_i = s(I_i, T_i)
    pseudo_code   s(m_i, T_j)           s(m_i, I_j)            m_i = m_λ(I_i, T_i)        (Algorithm 1)
    released      s(I_i, m_j)           s(T_i, m_j)            the same                   (the authors' code)
    proof         s(I_i, m_λ(I_i, T_j)) s(T_i, m_λ(T_i, I_j))                             (Eq. 8)

image, text [N, d] points; λ one number, the share of the image (of the anchor in `proof`); τ₂ = exp(t₂). Three
different objectives go by one name, so all three are here. The pseudo-code sums over the batch, Eq. 6 and 8 take the
mean: so does this. The released code adds both halves and does not halve them. Mixing is that of
`spaces/geodesic_mix.py`, which is finite where the authors' is 0/0 (identical captions).
"""

from __future__ import annotations

import torch
from torch import Tensor

from equipoise.forms import CrossEntropy
from equipoise.kernels import Scoring
from equipoise.spaces import ScoredPoints, Space, TowardMix, geodesic_mix, hardness, override_scores
from equipoise.targets import OneHot
from equipoise.targets.weighted import weighted_pairs

READINGS = ("pseudo_code", "released", "proof")


def m2mix(
    image: Tensor,
    text: Tensor,
    lam: float,
    scoring: Scoring,
    *,
    reading: str = READINGS[0],
    weights: Tensor | None = None,
    impl: str = "auto",
) -> Tensor:
    """m²-Mix; row i is of pair i alone, and counts by its weight where there are `weights` [N]."""
    positive = scoring.space.pairwise(image, text)
    diagonal, target = torch.arange(len(image), device=image.device), weighted_pairs(OneHot(), weights)
    form, total = CrossEntropy(direction="rows"), torch.zeros((), dtype=positive.dtype, device=positive.device)
    for half in halves(image, text, lam, space=scoring.space, reading=reading).values():
        rows, cols, scorer = override_scores(half.rows, half.cols, [(diagonal, positive)], of=half.scorer)
        total = total + scoring.contrast(rows, cols, scorer=scorer, target=target, form=form, impl=impl)
    return total / 2


def halves(image: Tensor, text: Tensor, lam: float, *, space: Space, reading: str) -> dict[str, ScoredPoints]:
    """The two matrices of a reading, by the modality that mixes are compared with."""
    if reading == "proof":
        toward = TowardMix(space, lam)
        return {"image": ScoredPoints(image, text, toward), "text": ScoredPoints(text, image, toward)}
    mixed = geodesic_mix(image, text, lam, space=space)
    if reading == "released":
        return {"image": ScoredPoints(image, mixed, space), "text": ScoredPoints(text, mixed, space)}
    return {"text": ScoredPoints(mixed, text, space), "image": ScoredPoints(mixed, image, space)}


def mixed_above(image: Tensor, text: Tensor, lam: float, *, space: Space, reading: str) -> dict[str, float]:
    """The share of mixed negatives that are closer than the positive (Fig. 12-15), for images and for texts."""
    positive = space.pairwise(image, text)
    return {
        side: float(hardness(half.rows, half.cols, space=half.scorer, positive=positive).above.mean())
        for side, half in halves(image, text, lam, space=space, reading=reading).items()
    }
