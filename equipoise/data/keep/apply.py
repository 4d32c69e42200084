"""A keep file, applied to the data it was made of."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.data.keep.decisions import DECISIONS, Decisions, digest_of_table, read_decisions
from equipoise.data.keep.file import NOTE, TABLE, KeepTable, read_keep
from equipoise.data.keep.match import REFUSE, matched
from equipoise.data.keep.rules import WEIGHTS, caption_weights, kept_captions
from equipoise.data.keep.source import KeptSource
from equipoise.data.source import Source
from equipoise.types import UserError


def kept_source(
    source: Source, folder: Path, rule: str, threshold: float, default: float = 0.5, unknown: str = REFUSE
) -> KeptSource:
    """The captions of `source` that the keep file in `folder` keeps, by its decisions or by another rule, and by what a
    person decided on some of them (`decisions.py`). Records that it does not name are `unknown`."""
    table, note = read_keep(folder)
    counts, here = matched(table, source, folder / TABLE, unknown)
    decisions = read_decisions(folder, table)
    swaps = {**_rematched(table, rule, decisions), **decisions.swaps}
    rule, threshold = _effective(rule, threshold, default, decisions, note, folder)
    keep, weights = table.keep.copy(), table.weight.copy()
    if rule != "decision":
        keep = kept_captions(table.right, rule, threshold, _share(note, folder))
        weights = caption_weights(table.right, keep, rule)
    elif not _weighs(note):
        weights[keep & (weights == 0)] = 1  # the rule dropped them, and the table was edited since
    keep[list(swaps)] = True
    weights[list(swaps)] = 1
    rows = np.fromiter(decisions.keep, dtype=np.int64, count=len(decisions.keep))
    keep[rows] = list(decisions.keep.values())
    weights[rows] = keep[rows]
    placed = _swaps_among(swaps, table, here, folder)
    keep, weights = keep[here], weights[here]
    try:
        kept = KeptSource(source, counts, keep, None if (weights[keep] == 1).all() else weights, placed)
    except UserError as error:
        raise UserError(f"{folder / TABLE}: {error}") from None
    shown = {"threshold": threshold} if rule == "threshold" else {}
    kept.selection = {"rule": rule, **shown, "captions": int(keep.sum()), "by_hand": decisions.counts()}
    kept.selection["digest"] = _digest(table, here, keep, weights, swaps)
    return kept


def _weighs(note: Mapping[str, Any]) -> bool:
    """Whether captions were to count by their P(right), so that a weight of 0 is meant."""
    decided = note.get("rule")
    return isinstance(decided, dict) and decided.get("rule") == WEIGHTS


def _rematched(table: KeepTable, rule: str, decisions: Decisions) -> dict[int, int]:
    """The captions that take the place of others by the decisions in the file; a person's own come first."""
    if table.instead is None or rule != "decision":
        return {}
    rows = np.flatnonzero(table.instead >= 0).tolist()
    return {row: int(table.instead[row]) for row in rows if row not in decisions.keep}


def _swaps_among(swaps: Mapping[int, int], table: KeepTable, here: np.ndarray, folder: Path) -> dict[int, int]:
    """The captions that take the place of others, by their places among the rows that are `here`."""
    place = {int(row): number for number, row in enumerate(here)}
    placed = {}
    for row, other in swaps.items():
        if row in place and other not in place:
            raise UserError(
                f'{folder}: a caption of "{table.keys[row]}" is swapped for one of "{table.keys[other]}", '
                "which is not among the data that is trained on; decide otherwise"
            )
        if row in place:
            placed[place[row]] = place[other]
    return placed


def _effective(
    rule: str, threshold: float, default: float, decisions: Decisions, note: Mapping[str, Any], folder: Path
) -> tuple[str, float]:
    """The rule and its threshold; a threshold that a person chose counts wherever captions are kept by one."""
    chosen = decisions.threshold
    decided = note.get("rule")
    by_threshold = rule == "decision" and isinstance(decided, dict) and decided.get("rule") == "threshold"
    if chosen is None or not (by_threshold or rule == "threshold"):
        return rule, threshold
    if rule == "threshold" and threshold not in (default, chosen):
        raise UserError(
            f"keep.threshold is {threshold:g}, and {folder / DECISIONS} says {chosen:g}; leave one of them out"
        )
    return "threshold", chosen


def _digest(table: KeepTable, here: np.ndarray, keep: np.ndarray, weights: np.ndarray, swaps: Mapping[int, int]) -> str:
    """Equal where the same captions are trained on, and count as much."""
    total = hashlib.sha256(digest_of_table(table).encode())
    if len(here) < len(table):
        total.update(here.astype(np.int64).tobytes())
    total.update(keep.tobytes() + weights[keep].astype(np.float32).tobytes())
    total.update(repr(sorted(swaps.items())).encode())
    return total.hexdigest()


def _share(note: Mapping[str, Any], folder: Path) -> float:
    share = note.get("noise")
    if not isinstance(share, float | int) or not 0 <= share <= 1:
        raise UserError(f'{folder / NOTE}: "noise" is {share!r}, and not a share of captions; clean the data again')
    return float(share)
