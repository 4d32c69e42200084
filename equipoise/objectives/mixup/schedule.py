"""Mixup schedules: shares drawn from a Beta distribution, its parameter and the terms' weight over the steps.

Oh et al. 2023, "Geodesic Multi-Modal Mixup for Robust Fine-Tuning", App. A.1, footnote 9, and Fig. 9-10.

    λ ~ Beta(α, α), one per term and step         α from its first to its last value, linear in the step (Fig. 9-10)
    weight of all mixed terms: 1/epoch          epoch from 1 (footnote 9)

A draw depends on seed, term and step alone: all processes draw alike, and so does a run that was interrupted.
"""

from __future__ import annotations

from random import Random

from equipoise.data.rng import generator
from equipoise.types import StepInfo


def drawn_share(moment: StepInfo, term: str, alpha: tuple[float, float]) -> float:
    """λ of a term in this step."""
    now = alpha_at(moment, alpha)
    return Random(generator(moment.seed, "mix", term, moment.step).initial_seed()).betavariate(now, now)


def alpha_at(moment: StepInfo, alpha: tuple[float, float]) -> float:
    first, last = alpha
    return (1 - moment.progress) * first + moment.progress * last


def weight_at(moment: StepInfo, per_epoch: bool) -> float:
    return 1 / moment.epoch if per_epoch else 1.0
