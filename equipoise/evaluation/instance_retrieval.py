"""Image-to-image retrieval: find the pictures that show what the query shows.

    AP       area under precision over recall by trapezoids: for the j-th positive (from 0) at place r (from 0),
             1/R · (j/r + (j + 1)/(r + 1)) / 2, with j/r = 1 at r = 0
    mP@k     precision among the first min(k, place of the last positive)
    Easy     positives easy, hard and junk are not counted      Radenović et al. 2018, "Revisiting Oxford and Paris:
    Medium   positives easy and hard, junk is not counted       Large-Scale Image Retrieval Benchmarking", §4, and the
    Hard     positives hard, easy and junk are not counted      authors' evaluation code, which AP follows

Pictures that are not counted are taken out of the ranking. Queries without a positive are left out. Ties are broken
against the model: a negative comes before every positive of equal similarity.

Copy detection on Copydays (Douze et al. 2009, "Evaluation of GIST descriptors for web-scale image search") is the same
with one positive for each query, its original, among originals and distractors. Papers report mAP of the block "strong"
(Berman et al. 2019, "MultiGrain"; Caron et al. 2021, DINO; Pizzi et al. 2022, SSCD). How we differ: DINO's code looks
at the first 20 results, SSCD's at 100, and an original beyond counts 0; here the whole ranking counts, which adds at
most 1/42 and 1/202 to the AP of such a query. Nothing is whitened.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from equipoise.data.benchmark_sets.instance_set import Truth
from equipoise.evaluation.encoding import at_least_float32
from equipoise.evaluation.metrics import Metric
from equipoise.types import UserError

SETUPS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {  # which are positives, which are not counted
    "easy": (("easy",), ("hard", "junk")),
    "medium": (("easy", "hard"), ("junk",)),
    "hard": (("hard",), ("easy", "junk")),
}
K = 10
METRICS = {
    **{f"{setup}_mAP": Metric(f"{setup} mAP", "Mean average precision by trapezoids.") for setup in SETUPS},
    **{f"{setup}_mP@{K}": Metric(f"{setup} mP@{K}", "Mean precision among the first ten.") for setup in SETUPS},
    "mAP": Metric("mAP", "Mean average precision of the originals of copies, over all blocks."),
    "R@1": Metric("R@1", "Share of copies whose original comes first."),
    "strong_mAP": Metric("strong mAP", "The same of the block of strong attacks, which papers report."),
}


@dataclass(frozen=True)
class QueryPrecision:
    """AP and precision at k of every query [Q]; NaN for one without a positive."""

    average: np.ndarray
    at_k: np.ndarray


def instance_precision(
    queries: Tensor,
    database: Tensor,
    similarity: Callable[[Tensor, Tensor], Tensor],
    positives: Sequence[Sequence[int]],
    ignored: Sequence[Sequence[int]],
    k: int = K,
    chunk: int = 256,
) -> QueryPrecision:
    """Precision of points `queries` [Q, d] in `database` [N, d], some queries at a time."""
    if not len(queries) or not len(database):
        raise UserError(f"image retrieval needs queries and a database, got {len(queries)} and {len(database)}")
    queries, database = at_least_float32(queries), at_least_float32(database)
    average, at_k = np.full(len(queries), np.nan), np.full(len(queries), np.nan)
    for start in range(0, len(queries), chunk):
        scores = similarity(queries[start : start + chunk], database)
        if not torch.isfinite(scores).all():
            raise UserError("some similarities are not finite, so no ranking exists: look for NaN in the weights")
        for row, values in enumerate(scores.double().cpu().numpy(), start):
            if len(positives[row]):
                places = positive_places(values, positives[row], ignored[row])
                average[row], at_k[row] = trapezoid_ap(places), precision_at(places, k)
    return QueryPrecision(average, at_k)


def positive_places(scores: np.ndarray, positives: Sequence[int], ignored: Sequence[int]) -> np.ndarray:
    """Places of the positives from 0, ascending, once what is ignored is taken out."""
    counted = np.ones(len(scores), dtype=bool)
    counted[np.asarray(ignored, dtype=np.int64)] = False
    own = np.unique(np.asarray(positives, dtype=np.int64))
    counted[own] = False
    misses = np.sort(-scores[counted])
    hits = np.sort(-scores[own])
    return np.searchsorted(misses, hits, side="right") + np.arange(len(own))


def trapezoid_ap(places: np.ndarray) -> float:
    """AP of positives at these places, from 0 and ascending."""
    order = np.arange(len(places))
    before = np.where(places == 0, 1.0, order / np.maximum(places, 1))
    return float(((before + (order + 1) / (places + 1)) / 2).mean())


def precision_at(places: np.ndarray, k: int) -> float:
    """Share of positives among the first k, or fewer where all of them come before."""
    last = min(int(places.max()) + 1, k)
    return float((places + 1 <= last).sum() / last)


def revisited(
    queries: Tensor, database: Tensor, similarity: Callable[[Tensor, Tensor], Tensor], truth: Sequence[Truth]
) -> dict[str, QueryPrecision]:
    """Precision of every query in the three setups."""
    found = {}
    for setup, (positive, ignored) in SETUPS.items():
        lists = (_numbers(truth, positive), _numbers(truth, ignored))
        found[setup] = instance_precision(queries, database, similarity, lists[0], lists[1])
    return found


def _numbers(truth: Sequence[Truth], kinds: Sequence[str]) -> list[list[int]]:
    return [[number for kind in kinds for number in getattr(one, kind)] for one in truth]
