"""A keep file, applied to the data it was made of."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.data.keep.decisions import DECISIONS, Decisions, digest_of_table, read_decisions
from equipoise.data.keep.file import NOTE, TABLE, KeepTable, read_keep
from equipoise.data.keep.records import records
from equipoise.data.keep.rules import caption_weights, kept_captions
from equipoise.data.keep.source import KeptSource
from equipoise.data.source import Source
from equipoise.types import UserError


def kept_source(source: Source, folder: Path, rule: str, threshold: float, default: float = 0.5) -> KeptSource:
    """The captions of `source` that the keep file in `folder` keeps, by its decisions or by another rule, and by what a
    person decided on some of them (`decisions.py`)."""
    table, note = read_keep(folder)
    counts = matched(table, source, folder / TABLE)
    decisions = read_decisions(folder, table)
    rule, threshold = _effective(rule, threshold, default, decisions, note, folder)
    keep, weights = table.keep.copy(), table.weight.copy()
    if rule != "decision":
        keep = kept_captions(table.right, rule, threshold, _share(note, folder))
        weights = caption_weights(table.right, keep, rule)
    rows = np.fromiter(decisions.keep, dtype=np.int64, count=len(decisions.keep))
    keep[rows] = list(decisions.keep.values())
    weights[rows] = keep[rows]
    try:
        kept = KeptSource(source, counts, keep, None if (weights[keep] == 1).all() else weights, decisions.swaps)
    except UserError as error:
        raise UserError(f"{folder / TABLE}: {error}") from None
    shown = {"threshold": threshold} if rule == "threshold" else {}
    kept.selection = {"rule": rule, **shown, "captions": int(keep.sum()), "by_hand": decisions.counts()}
    kept.selection["digest"] = _digest(table, keep, weights, decisions)
    return kept


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


def _digest(table: KeepTable, keep: np.ndarray, weights: np.ndarray, decisions: Decisions) -> str:
    """Equal where the same captions are trained on, and count as much."""
    total = hashlib.sha256(digest_of_table(table).encode())
    total.update(keep.tobytes() + weights[keep].astype(np.float32).tobytes())
    total.update(repr(sorted(decisions.swaps.items())).encode())
    return total.hexdigest()


def matched(table: KeepTable, source: Source, path: Path) -> np.ndarray:
    """Captions of each record [N]; raises UserError where the table is not of this source, caption by caption."""
    counts, row = np.zeros(len(source), dtype=np.int64), 0
    for index, (key, texts) in enumerate(records(source)):
        end = row + len(texts)
        same = next((place for place in range(row, end) if place >= len(table) or table.keys[place] != key), end)
        if same < end:
            raise _mismatch(table, same, key, path)
        if not np.array_equal(table.captions[row:end], np.arange(len(texts))):
            raise _other_data(path, f'the captions of "{key}" are not numbered from 0 to {len(texts) - 1} there')
        if not np.array_equal(table.fingerprints[row:end], texts):
            raise _other_data(path, f'"{key}" has other captions here than there')
        counts[index], row = len(texts), end
    if row < len(table):
        raise _other_data(path, f'it holds further captions of "{table.keys[row]}", which the data does not')
    return counts


def _mismatch(table: KeepTable, row: int, key: str, path: Path) -> UserError:
    if key not in set(table.keys):
        return UserError(
            f'{path} says nothing of the record "{key}", so it is of other data, or the data has grown; '
            "clean the data again"
        )
    there = f'"{table.keys[row]}"' if row < len(table) else "nothing"
    return _other_data(path, f'"{key}" stands here where {there} stands there')


def _other_data(path: Path, difference: str) -> UserError:
    return UserError(f"{path} is of other data: {difference}; give the folder that was cleaned from this data")


def _share(note: Mapping[str, Any], folder: Path) -> float:
    share = note.get("noise")
    if not isinstance(share, float | int) or not 0 <= share <= 1:
        raise UserError(f'{folder / NOTE}: "noise" is {share!r}, and not a share of captions; clean the data again')
    return float(share)
