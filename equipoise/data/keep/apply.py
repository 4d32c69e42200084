"""A keep file, applied to the data it was made of."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.data.keep.decisions import DECISIONS, Decisions, digest_of_table, read_decisions
from equipoise.data.keep.file import NOTE, TABLE, KeepTable, read_keep
from equipoise.data.keep.records import records
from equipoise.data.keep.rules import WEIGHTS, caption_weights, kept_captions
from equipoise.data.keep.source import KeptSource
from equipoise.data.source import Source
from equipoise.types import Notice, UserError


def kept_source(source: Source, folder: Path, rule: str, threshold: float, default: float = 0.5) -> KeptSource:
    """The captions of `source` that the keep file in `folder` keeps, by its decisions or by another rule, and by what a
    person decided on some of them (`decisions.py`)."""
    table, note = read_keep(folder)
    counts, here = matched(table, source, folder / TABLE)
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


def matched(table: KeepTable, source: Source, path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Captions of each record [N], and the rows of the table that are theirs, in order.

    The table may decide on further records, such as those that are held out for validation. Raises UserError where it
    is not of this source, caption by caption."""
    counts, here, row = np.zeros(len(source), dtype=np.int64), list[range](), 0
    for index, (key, texts) in enumerate(records(source)):
        row = _row_of(table, key, row, path)
        end = row + len(texts)
        if any(place >= len(table) or table.keys[place] != key for place in range(row, end)):
            raise _other_data(path, f'"{key}" has {len(texts)} captions here and fewer there')
        if not np.array_equal(table.captions[row:end], np.arange(len(texts))):
            raise _other_data(path, f'the captions of "{key}" are not numbered from 0 to {len(texts) - 1} there')
        if not np.array_equal(table.fingerprints[row:end], texts):
            raise _other_data(path, f'"{key}" has other captions here than there')
        if end < len(table) and table.captions[end]:
            raise _other_data(path, f'it holds further captions of "{key}", which the data does not')
        here.append(range(row, end))
        counts[index], row = len(texts), end
    rows = np.fromiter((place for places in here for place in places), dtype=np.int64, count=int(counts.sum()))
    if len(rows) < len(table):
        further = int((table.captions == 0).sum()) - len(source)
        warnings.warn(f"{path} decides on {further:,} records that are not trained on here", Notice, stacklevel=3)
    return counts, rows


def _row_of(table: KeepTable, key: str, start: int, path: Path) -> int:
    """The row at which a record begins, from `start` on."""
    found = next((row for row in range(start, len(table)) if table.keys[row] == key), None)
    if found is None:
        raise _mismatch(table, start, key, path)
    return found


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
