"""Effective robustness: accuracy under a shift, above what the accuracy without it would let one expect.

Taori et al. 2020, "Measuring Robustness to Natural Distribution Shifts in Image Classification", §2.2, with the line in
logit space as in Radford et al. 2021, §3.3. Of baseline models a straight line is fitted by least squares,

    logit(shifted accuracy) ≈ a · logit(accuracy) + b          logit(p) = log p/(1 - p)

    effective robustness of f = shifted(f) - σ( a · logit(accuracy(f)) + b )

0 for a model on the line, above 0 for one that loses less than the baselines do. Accuracies of 0 and 1, whose logits
are infinite, are moved by half a picture. ImageNet-A and -R have 200 of ImageNet's 1,000 classes: there accuracy(f) is
ImageNet's among these 200, as in the paper (`data/benchmark_sets/class_parts.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from equipoise.types import UserError

APART = 1e-6  # in logits: less is one accuracy


@dataclass(frozen=True)
class BaselineLine:
    slope: float
    intercept: float
    fit: float  # R², the share of the variance in logits that it explains
    models: int

    def expected(self, accuracy: float, pictures: int) -> float:
        """The shifted accuracy of a baseline that has this accuracy."""
        return 1 / (1 + math.exp(-(self.slope * logit(accuracy, pictures) + self.intercept)))

    def effective(self, accuracy: float, shifted: float, pictures: int) -> float:
        return shifted - self.expected(accuracy, pictures)


def logit(accuracy: float, pictures: int) -> float:
    """log p/(1-p); of 0 and 1, half a picture away from it."""
    least = 0.5 / max(pictures, 1)
    kept = min(max(accuracy, least), 1 - least)
    return math.log(kept / (1 - kept))


def baseline_line(pairs: Sequence[tuple[float, float]], pictures: int, shifted_pictures: int) -> BaselineLine:
    """The line through baselines, each with its accuracy and its shifted accuracy."""
    x = np.array([logit(accuracy, pictures) for accuracy, _ in pairs])
    y = np.array([logit(shifted, shifted_pictures) for _, shifted in pairs])
    if len(pairs) < 2 or np.ptp(x) < APART:
        raise UserError(
            "effective robustness needs two baselines or more that differ in accuracy, to fit a line; name others with "
            "--baseline"
        )
    slope, intercept = np.polyfit(x, y, 1)
    spread = ((y - y.mean()) ** 2).sum()
    unexplained = ((y - slope * x - intercept) ** 2).sum()
    return BaselineLine(float(slope), float(intercept), float(1 - unexplained / spread) if spread else 1.0, len(pairs))
