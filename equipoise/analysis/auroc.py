"""Area under the ROC curve: the chance that a score ranks a wrong pair below a right one, ties counting half."""

from __future__ import annotations

import numpy as np

from equipoise.types import UserError


def auroc(scores: np.ndarray, wrong: np.ndarray) -> float:
    """`scores` [N], larger for pairs that look right; `wrong` [N] bool. The rank-sum form of Mann and Whitney."""
    bad, good = int(wrong.sum()), int((~wrong).sum())
    if not bad or not good:
        raise UserError(f"a ranking of right and wrong needs both; there are {good} right and {bad} wrong pairs")
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (counts.cumsum() - (counts - 1) / 2)[places]
    return float((ranks[~wrong].sum() - good * (good + 1) / 2) / (good * bad))
