"""How good the decisions were, where the data knows which of its captions are wrong (a pair's `truth`)."""

from __future__ import annotations

import numpy as np

from equipoise.analysis.auroc import auroc
from equipoise.data.source import Pair, Source

CLEAN, TRUE = "is_clean", "captions_true"


def measured(source: Source, owners: np.ndarray, right: np.ndarray, keep: np.ndarray) -> dict[str, float]:
    """Shares of wrong captions before and after, of right ones lost, and the AUROC of P(right); empty without truth."""
    pairs = [source.pair(index) for index in range(len(source))]
    if not any(CLEAN in pair.truth for pair in pairs):
        return {}
    counts = np.bincount(owners, minlength=len(pairs))
    wrong = np.concatenate([_wrong(pair, int(count)) for pair, count in zip(pairs, counts, strict=True)])
    found = {
        "wrong": float(wrong.mean()),
        "wrong_among_kept": float(wrong[keep].mean()) if keep.any() else 0.0,
        "right_dropped": float((~keep)[~wrong].mean()) if (~wrong).any() else 0.0,
    }
    known = ~np.isnan(right)
    has_both = 0 < wrong[known].sum() < known.sum()
    return found | ({"auroc_of_captions": auroc(right[known], wrong[known])} if has_both else {})


def _wrong(pair: Pair, count: int) -> np.ndarray:
    """Bool [count]: by the caption where the data knows that, else all or none."""
    own = pair.truth.get(TRUE)
    return np.full(count, not pair.truth.get(CLEAN, True)) if own is None else ~np.array(own, dtype=bool)
