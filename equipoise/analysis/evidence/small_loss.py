"""Pairs of small loss are right: the choice of co-teaching.

Han et al. 2018, "Co-teaching: Robust training of deep neural networks with extremely noisy labels", Algorithm 1.

    ℓ_i = -½ (log p_i→ + log p_i←)        evidence_i = exp(-ℓ_i)

p as in `random_batches.py`. There two networks learn side by side, and of each batch each is given the pairs of which
the *other* has the smallest losses. Here they exchange once: two judges of other seeds learn from the pairs
(`clean.judges = 2`), and in the second round (`clean.rounds = 2`) each of two new ones learns from what the other one
of the first round kept; `clean.seen = true` shows them all pairs, as the paper does. The model itself learns from what
both of the second round find together.
"""

from __future__ import annotations

from torch import Tensor

from equipoise.analysis.evidence.judged import JudgedPairs
from equipoise.analysis.evidence.random_batches import BATCH, match_log_probabilities, random_batches


def small_loss(judged: JudgedPairs) -> Tensor:
    points, batches = judged.points, random_batches(len(judged.points.texts), BATCH, judged.seed)
    return match_log_probabilities(points, judged.model.space.similarity, judged.scale, batches).mean(0).exp()
