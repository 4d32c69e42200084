"""GSC's agreement: a pair is right if it finds itself, and if image and text have the same neighbours.

Zhao et al. 2024, "Mitigating Noisy Correspondence by Geometrical Structure Consistency Learning".

    cross-modal    p_i = ½ (p_i→ + p_i←)                                                (`random_batches.py`)
    intra-modal    c_i = cos(R_i, R'_i),   R_ij = σ(s(u_i, u_j)),   R'_ij = σ(s(v_i, v_j)),   j in the batch
    y_i = min(p_i, posterior of the higher mean of two Gaussians on all c)

u_i, v_i the image and the text of pair i. There y is averaged over epochs and weighs the columns of R from the second
epoch on; here a judge is read once, so the average is what it reads and all columns count alike.
"""

from __future__ import annotations

import torch
from torch import Tensor

from equipoise.analysis.evidence.judged import JudgedPairs
from equipoise.analysis.evidence.random_batches import BATCH, match_log_probabilities, random_batches
from equipoise.analysis.gaussian_mixture import lower_posterior
from equipoise.analysis.noise import Pairs, Similarity


def gsc(judged: JudgedPairs) -> Tensor:
    points, similarity = judged.points, judged.model.space.similarity
    batches = random_batches(len(points.texts), BATCH, judged.seed)
    cross = match_log_probabilities(points, similarity, judged.scale, batches).exp().mean(0)
    agreement = structure_agreement(points, similarity, batches)
    return torch.minimum(cross, torch.from_numpy(lower_posterior(-agreement.numpy())))


def structure_agreement(points: Pairs, similarity: Similarity, batches: list[Tensor]) -> Tensor:
    """c of every text [M]."""
    found = torch.zeros(len(points.texts), dtype=torch.float64)
    for rows in batches:
        images, texts = points.images[points.image_of_text[rows]], points.texts[rows]
        relations, others = (similarity(side, side).double().sigmoid() for side in (images, texts))
        found[rows] = torch.cosine_similarity(relations, others, dim=1)
    return found
