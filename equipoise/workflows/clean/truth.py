"""How good the decisions were, where the data knows which of its captions are wrong (a pair's `truth`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from equipoise.analysis.auroc import auroc
from equipoise.data.source import Pair, Source

CLEAN, TRUE, NOISE, DETAILS = "is_clean", "captions_true", "noise", "details"


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


def kinds_against_truth(source: Source, owners: np.ndarray, kinds: Sequence[str]) -> dict[str, dict[str, Any]]:
    """How many captions of each true kind were named what, as a part of the note; empty where the kinds are not known.

    True kinds are the kind of noise of a caption that is wrong, and the level of detail of one that is right."""
    pairs = [source.pair(index) for index in range(len(source))]
    if not any(CLEAN in pair.truth and NOISE in pair.truth for pair in pairs):
        return {}
    counts = np.bincount(owners, minlength=len(pairs))
    true = [kind for pair, count in zip(pairs, counts, strict=True) for kind in _true_kinds(pair, int(count))]
    table: dict[str, dict[str, int]] = {}
    for what, named in Counter(zip(true, kinds, strict=True)).items():
        table.setdefault(what[0], {})[what[1] or "none"] = named
    return {"kinds_against_truth": {name: table[name] for name in sorted(table)}}


def _true_kinds(pair: Pair, count: int) -> list[str]:
    details = pair.truth.get(DETAILS) or ["right"] * count
    noise = str(pair.truth.get(NOISE))
    return [noise if wrong else str(detail) for wrong, detail in zip(_wrong(pair, count), details, strict=True)]


def _wrong(pair: Pair, count: int) -> np.ndarray:
    """Bool [count]: by the caption where the data knows that, else all or none."""
    own = pair.truth.get(TRUE)
    return np.full(count, not pair.truth.get(CLEAN, True)) if own is None else ~np.array(own, dtype=bool)
