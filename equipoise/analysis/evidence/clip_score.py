"""The similarity of a pair itself: CLIP-score filtering.

Gadre et al. 2023, "DataComp: In search of the next generation of multimodal datasets", §3.2; Schuhmann et al. 2022
(LAION-5B) cut it at 0.28.

    score_i = s(u_i, v_i)

A cosine on the sphere. The rule `threshold` cuts it at a fixed value, the rule `share` drops the lowest `clean.share`:
DataComp keeps the best 30% by a ViT-L/14 that was trained elsewhere (`equipoise clean --model`). One cosine means other
things in other models, and a short caption has a lower one than a long one that is as right.
"""

from __future__ import annotations

from torch import Tensor

from equipoise.analysis.evidence.judged import JudgedPairs
from equipoise.analysis.noise import own_similarity


def clip_score(judged: JudgedPairs) -> Tensor:
    return own_similarity(judged.points, judged.model.space.similarity)
