"""Which captions to keep, from the probability that each is right.

    threshold   those with P(right) of at least a threshold
    share       all but the expected number of wrong ones: round(π M) of M, those with the lowest P(right)
    weights     all, each counting as much as it is likely to be right

π is the share of wrong captions that the judges read. Of equal probabilities the later caption is kept, and a caption
that nothing is known of (nan) always is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Literal

import numpy as np

Rule = Literal["threshold", "share", "weights"]
KEEP, DROP = "keep", "drop"
WEIGHTS = "weights"


def kept_captions(right: np.ndarray, rule: str, threshold: float, share: float) -> np.ndarray:
    """Bool [M]: whether each caption is kept, by its P(right) [M]."""
    keep, known = np.ones(len(right), dtype=bool), ~np.isnan(right)
    keep[known] = RULES[rule](right[known], threshold, share)
    return keep


def _threshold(right: np.ndarray, threshold: float, _: float) -> np.ndarray:
    return right >= threshold


def _share(right: np.ndarray, _: float, share: float) -> np.ndarray:
    keep = np.ones(len(right), dtype=bool)
    keep[np.argsort(right, kind="stable")[: round(share * len(right))]] = False
    return keep


def _all(right: np.ndarray, *_: float) -> np.ndarray:
    return np.ones(len(right), dtype=bool)


RULES: Mapping[str, Callable[[np.ndarray, float, float], np.ndarray]] = {
    "threshold": _threshold,
    "share": _share,
    "weights": _all,
}


def caption_weights(right: np.ndarray, keep: np.ndarray, rule: str) -> np.ndarray:
    """How much each caption counts [M]: P(right) by the rule `weights` (1 where it is not known), else 1 if kept."""
    return np.where(np.isnan(right), 1.0, right).astype(np.float32) if rule == WEIGHTS else keep.astype(np.float32)


def reason(right: float, keep: bool, rule: str, threshold: float, share: float) -> str:
    """Why a caption was kept or dropped, in a few words."""
    if math.isnan(right):
        return "no judge knows anything of it"
    if rule == WEIGHTS:
        return "counts by P(right)"
    if rule == "threshold":
        return f"P(right) {'at least' if keep else 'below'} {threshold:g}"
    return f"{'not ' if not keep else ''}among the {1 - share:.1%} likeliest"
