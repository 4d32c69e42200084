"""What is wrong with a caption, as far as a judge can tell: another's, wrong in a detail, or true of many images.

    vague      it fits many images alike:   exp(H) / K ≥ ¼,   H = -Σ_k q_k log q_k,   q = softmax_k(t' s(u_k, v))
    detail     it nearly fits:   its own m > -6, and the median m of its image's captions that are not vague in (-6, -2]
    another    it looks wrong, P(right) < ½, and is none of these

    m = log r - max_k log r(u_k, v):   how much less a caption fits its own image than that of a pool which it fits best

u_k the K images of a pool without its own, v the caption, t' the logit scale of right pairs, log r that of `noise.py`.
exp(H) is the number of images that the caption might be of. `detail` comes first, then `another`, then `vague`; it is a
suspicion also of captions that look right, for most with a wrong detail do. The bounds were chosen on scenes, where
docs/audit.md says how often each name is right. A judge that knows little finds everything vague.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from equipoise.analysis.noise import CHUNK, Pairs, Similarity

ANOTHER, DETAIL, VAGUE, NONE = "another", "detail", "vague", ""
KINDS = (ANOTHER, DETAIL, VAGUE)
MANY = 0.25  # of the images of the pool, that a vague caption fits alike
NEAR, FAR = -2.0, -6.0  # m of captions that nearly fit


def fit_elsewhere(
    points: Pairs, pool: Tensor, similarity: Similarity, scale: float, means: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """exp(H) / K and max_k log r(u_k, v) of each text [M], over the images with the numbers `pool` [K] but its own.

    `means` [N] and [M] are the logs of the mean exp(t' s) of each image over texts, and of each text over images.
    """
    shares, best = [], []
    for start in range(0, len(points.texts), CHUNK):
        texts = slice(start, start + CHUNK)
        own = points.image_of_text[texts, None] == pool
        logits = scale * similarity(points.images[pool], points.texts[texts]).double().T
        log_q = logits.masked_fill(own, -torch.inf).log_softmax(dim=1)
        entropy = -(log_q.exp() * log_q.masked_fill(own, 0.0)).sum(dim=1)
        others = (~own).sum(dim=1)
        shares.append(torch.where(others > 0, entropy.exp() / others, 0.0))
        ratios = logits - (means[0][pool] + means[1][texts, None]) / 2
        best.append(ratios.masked_fill(own, -torch.inf).amax(dim=1))
    return torch.cat(shares), torch.cat(best)


def kinds(right: np.ndarray, fitted: np.ndarray, margin: np.ndarray, owners: np.ndarray) -> list[str]:
    """The kind of each caption, from P(right), exp(H) / K, m and the number of its image, each [M].

    None where P(right) is not known, and where nothing is suspected."""
    vague = fitted >= MANY
    middle = _median_of_image(margin, owners, ~vague)
    nearly = ~vague & (middle <= NEAR) & (middle > FAR) & (margin > FAR)
    found = np.select([np.isnan(right), nearly, right < 0.5, vague], [NONE, DETAIL, ANOTHER, VAGUE], NONE)
    return [str(kind) for kind in found]


def _median_of_image(values: np.ndarray, owners: np.ndarray, some: np.ndarray) -> np.ndarray:
    """The median over those of `some` captions that are of the same image [M]; nan where there are none."""
    found = np.full(len(values), np.nan)
    order = np.lexsort((values[some], owners[some]))
    ordered, images = values[some][order], owners[some][order]
    names, starts, counts = np.unique(images, return_index=True, return_counts=True)
    if len(names):
        medians = (ordered[starts + (counts - 1) // 2] + ordered[starts + counts // 2]) / 2
        place = np.searchsorted(names, owners).clip(max=len(names) - 1)
        found = np.where(names[place] == owners, medians[place], np.nan)
    return found
