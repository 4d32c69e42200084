"""CRCL's refined label: how surely a judge finds the pair again.

Qin et al. 2023, "Cross-modal Active Complementary Learning with Self-refining Correspondence", §3.3.

    y_i ← α y_i + (1 - α) ½ (p_i→ + p_i←),   0 where it is below 0.1

p as in `random_batches.py`. There y is averaged over the epochs of one network, starts as the p after a warm-up, and
the network starts anew several times while y stays. Here a judge is read once, at its best step, so that y is its p; to
train on it is the restart. Labels enter training by `clean.rule = "weights"` and the objective `crcl`.
"""

from __future__ import annotations

from torch import Tensor

from equipoise.analysis.evidence.judged import JudgedPairs
from equipoise.analysis.evidence.random_batches import BATCH, match_log_probabilities, random_batches

CONFIDENT = 0.1


def crcl(judged: JudgedPairs) -> Tensor:
    points, batches = judged.points, random_batches(len(judged.points.texts), BATCH, judged.seed)
    log_p = match_log_probabilities(points, judged.model.space.similarity, judged.scale, batches)
    return refined_label(log_p.exp().mean(0))


def refined_label(probability: Tensor) -> Tensor:
    return probability.masked_fill(probability < CONFIDENT, 0.0)
