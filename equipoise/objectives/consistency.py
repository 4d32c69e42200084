"""How far images lie to each other as their texts do, and each to the other's text as the other to its own.

Goel et al. 2022, "CyCLIP: Cyclic Contrastive Language-Image Pretraining", §2.2.

    in_modal    = 1/N Σ_ij (s(u_i, u_j) - s(v_i, v_j))²           cross_modal = 1/N Σ_ij (s(u_i, v_j) - s(u_j, v_i))²

u, v [N, d] points of images and texts, s without logit scale. Where s is an inner product nothing N × N is needed: with
a = u + v, b = u - v both differences are half of a_i·b_j ± a_j·b_i, and

    P = Σ_ij (a_i·b_j)² = ⟨AᵀA, BᵀB⟩,    Q = Σ_ij (a_i·b_j)(a_j·b_i) = tr((AᵀB)²)
    in_modal = (P + Q) / 2N,              cross_modal = (P - Q) / 2N

of d × d matrices that are sums over samples: O(N d²) time, exact, and no difference of large numbers, for b is what u
and v differ by. With equal weights of the terms their sum is P / N. Other similarities go in tiles
(`kernels/pair_sums.py`).
Pairs of weights w count as w_i w_j: N times the weighted mean, (N / (Σ w)²) Σ_ij w_i w_j (...)²; equal weights are as
none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from equipoise.kernels.backends import has_inner_products
from equipoise.kernels.pair_sums import pair_sums
from equipoise.kernels.sharding.batch_sum import batch_sum, columns_of_batch
from equipoise.kernels.sharding.columns import Columns
from equipoise.spaces import Space, TokenSets
from equipoise.types import UserError

IMPLEMENTATIONS = ("auto", "eager", "tiled")
EVERYTHING = 2**62  # a tile that holds any batch


class Consistency(NamedTuple):
    in_modal: Tensor
    cross_modal: Tensor


def consistency(
    image: Tensor, text: Tensor, space: Space, *, weights: Tensor | None = None, impl: str = "auto"
) -> Consistency:
    """Both terms of points [N, d], of pair i image i and text i. `auto` goes by d × d matrices where it can and in
    tiles elsewhere, `tiled` in tiles, `eager` in one that is N × N."""
    if isinstance(space, TokenSets) and space.toward != "both":
        raise UserError("consistency compares images with images, for which space.toward must be both")
    with torch.autocast(image.device.type, enabled=False):
        image, text = (points if points.dtype == torch.float64 else points.float() for points in (image, text))
        columns, roots = columns_of_batch(len(image)), None if weights is None else weights.to(image).sqrt()[:, None]
        if impl == "auto" and has_inner_products(space):
            sums = _by_gram_matrices(image, text, roots, columns)
        else:
            sums = _by_tiles(image, text, roots, columns, space, EVERYTHING if impl == "eager" else None)
        return Consistency(*(sums * _mean_factor(roots, columns)))


def _by_gram_matrices(image: Tensor, text: Tensor, roots: Tensor | None, columns: Columns) -> Tensor:
    both, apart = image + text, image - text
    if roots is not None:
        both, apart = roots * both, roots * apart
    grams = batch_sum(torch.stack([both.T @ both, apart.T @ apart, both.T @ apart]), columns).double()
    squares, swapped = (grams[0] * grams[1]).sum(), (grams[2] * grams[2].T).sum()
    return torch.stack([squares + swapped, squares - swapped]).to(image.dtype) / 2


def _by_tiles(
    image: Tensor, text: Tensor, roots: Tensor | None, columns: Columns, space: Space, tile: int | None
) -> Tensor:
    def of_block(rows: Sequence[Tensor], cols: Sequence[Tensor]) -> Tensor:
        within = space.similarity(rows[0], cols[0]) - space.similarity(rows[1], cols[1])
        across = space.similarity(rows[0], cols[1]) - space.similarity(rows[1], cols[0])
        weights = rows[2].square() * cols[2].square().T if roots is not None else 1.0
        return torch.stack([(weights * gaps.square()).sum() for gaps in (within, across)])

    return pair_sums((image, text) if roots is None else (image, text, roots), of_block, columns, tile)


def _mean_factor(roots: Tensor | None, columns: Columns) -> Tensor | float:
    """N / (Σ w)², of the whole batch; 1/N where all pairs count alike."""
    samples = columns.shape[0]
    if roots is None:
        return 1 / max(1, samples)
    total = columns.all_reduce(roots.double().square().sum())
    return samples / total.clamp(min=samples * 1e-12) ** 2
