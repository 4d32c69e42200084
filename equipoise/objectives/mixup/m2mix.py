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

from typing import NamedTuple

import torch
from torch import Tensor

from equipoise.forms import CrossEntropy
from equipoise.kernels import contrast
from equipoise.spaces import PartWay, Space, geodesic_mix, hardness, pinned
from equipoise.targets import OneHot

READINGS = ("pseudo_code", "released", "proof")


class Half(NamedTuple):
    """One of the two matrices: rows and columns, and where they are compared."""

    rows: Tensor
    cols: Tensor
    space: Space


def m2mix(
    image: Tensor,
    text: Tensor,
    lam: float,
    *,
    space: Space,
    log_scale: Tensor | float,
    reading: str = READINGS[0],
    impl: str = "auto",
) -> Tensor:
    positive = space.pairwise(image, text)
    place = torch.arange(len(image), device=image.device)
    total = torch.zeros((), dtype=positive.dtype, device=positive.device)
    for half in halves(image, text, lam, space=space, reading=reading).values():
        rows, cols, there = pinned(half.rows, half.cols, [(place, positive)], space=half.space)
        form = CrossEntropy(direction="rows")
        total = total + contrast(rows, cols, space=there, target=OneHot(), form=form, log_scale=log_scale, impl=impl)
    return total / 2


def halves(image: Tensor, text: Tensor, lam: float, *, space: Space, reading: str) -> dict[str, Half]:
    """The two matrices of a reading, by whom mixes are compared with."""
    if reading == "proof":
        toward = PartWay(space, lam)
        return {"image": Half(image, text, toward), "text": Half(text, image, toward)}
    mixed = geodesic_mix(image, text, lam, space=space)
    if reading == "released":
        return {"image": Half(image, mixed, space), "text": Half(text, mixed, space)}
    return {"text": Half(mixed, text, space), "image": Half(mixed, image, space)}


def mixed_above(image: Tensor, text: Tensor, lam: float, *, space: Space, reading: str) -> dict[str, float]:
    """The share of mixed negatives that are closer than the positive (Fig. 12-15), for images and for texts."""
    positive = space.pairwise(image, text)
    return {
        side: float(hardness(half.rows, half.cols, space=half.space, positive=positive).above.mean())
        for side, half in halves(image, text, lam, space=space, reading=reading).items()
    }
