"""Recall: how many of the rows that are truly closest an index finds, beside a search of all points in float32.

recall@10 = |found ∩ closest| / |closest|, the mean over queries
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from equipoise.index.closest import Closest
from equipoise.index.index import Index
from equipoise.index.making import COUNTED


def recall(found: Tensor, closest: Tensor) -> float:
    """Rows that were found [Q, k] beside the closest [Q, k]; -1 stands for none."""
    both = (found[:, :, None] == closest[:, None, :]) & (closest[:, None, :] >= 0)
    return float(both.any(1).sum() / (closest >= 0).sum().clamp(min=1))


def measure(index: Index, truth: Closest, wanted: float) -> dict[str, Any]:
    """Recall of an index; candidates are looked for further until it is as high as wanted, or no further."""
    measured: dict[str, Any] = {}
    for effort in index.efforts:
        index.effort = effort
        share = recall(index.search(truth.queries, COUNTED).rows, truth.rows)
        measured = {"recall@10": round(share, 4), "queries": len(truth.queries), "effort": effort}
        if share >= wanted:
            break
    return measured
