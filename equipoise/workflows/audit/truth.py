"""Measuring an audit against the truth, where the data knows which of its pairs are wrong (a pair's `truth`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from equipoise.analysis.auroc import auroc
from equipoise.data.source import Source
from equipoise.data.truth import OTHER, Truth, is_clean, noise_kind


def measured(evidence: np.ndarray, alike: Sequence[Sequence[float]], source: Source) -> dict[str, float]:
    """The true share of wrong records, the AUROC of the ranking, the share of real duplicates among those named.

    `evidence` [N] is larger for records that look right, nan for those that were not judged.
    """
    truths = [source.pair(index).truth for index in range(len(source))]
    if all(is_clean(truth) is None for truth in truths):
        return {}
    wrong = np.array([is_clean(truth) is False for truth in truths])
    found = {"true_noise": float(wrong.mean())}
    judged = ~np.isnan(evidence)
    if 0 < wrong[judged].sum() < judged.sum():
        found["auroc_of_records"] = auroc(evidence[judged], wrong[judged])
    kinds = {str(noise_kind(truth)) for truth, bad in zip(truths, wrong, strict=True) if bad}
    for kind in sorted(kinds) if len(kinds) > 1 else ():
        of_kind = np.array([str(noise_kind(truth)) == kind for truth in truths])
        some = judged & (~wrong | of_kind)
        found[f"auroc_of_{kind}"] = auroc(evidence[some], wrong[some])
    return found | _duplicates(alike, truths, source)


def _duplicates(alike: Sequence[Sequence[float]], truths: Sequence[Truth], source: Source) -> dict[str, float]:
    """R-precision of the duplicates: the share of real ones among the first R pairs named, with R real ones in all."""
    real = {
        frozenset((source.pair(index).key, truth[OTHER]))
        for index, truth in enumerate(truths)
        if noise_kind(truth) == "near_duplicates" and isinstance(truth.get(OTHER), str)
    }
    named = [frozenset(source.pair(int(number)).key for number in two) for _, *two in alike][: len(real)]
    return {"precision_of_duplicates": float(np.mean([two in real for two in named]))} if real and named else {}
