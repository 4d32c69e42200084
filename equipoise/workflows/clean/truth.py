"""How good the decisions were, where the data knows which of its captions are wrong (a pair's `truth`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from equipoise.analysis.auroc import auroc
from equipoise.data.source import Pair, Source
from equipoise.data.truth import DETAILS, is_clean, noise_kind, per_caption, wrong_captions


def measured(source: Source, owners: np.ndarray, right: np.ndarray, keep: np.ndarray) -> dict[str, float]:
    """Shares of wrong captions before and after, of right ones lost, and the AUROC of P(right); empty without truth."""
    pairs = [source.pair(index) for index in range(len(source))]
    if all(is_clean(pair.truth) is None for pair in pairs):
        return {}
    counts = np.bincount(owners, minlength=len(pairs))
    wrong = np.concatenate([wrong_captions(pair.truth, int(count)) for pair, count in zip(pairs, counts, strict=True)])
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
    if not any(_knows_kind(pair) for pair in pairs):
        return {}
    counts = np.bincount(owners, minlength=len(pairs))
    true = [kind for pair, count in zip(pairs, counts, strict=True) for kind in _true_kinds(pair, int(count))]
    table: dict[str, dict[str, int]] = {}
    for what, named in Counter(zip(true, kinds, strict=True)).items():
        table.setdefault(what[0], {})[what[1] or "none"] = named
    return {"kinds_against_truth": {name: table[name] for name in sorted(table)}}


def _true_kinds(pair: Pair, count: int) -> list[str]:
    details = per_caption(pair.truth, DETAILS, count) or ["right"] * count
    wrong = wrong_captions(pair.truth, count)
    return [str(noise_kind(pair.truth)) if bad else str(detail) for bad, detail in zip(wrong, details, strict=True)]


def _knows_kind(pair: Pair) -> bool:
    return is_clean(pair.truth) is not None and noise_kind(pair.truth) is not None
