"""A keep file, applied to the data it was made of."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from equipoise.data.keep.file import NOTE, TABLE, KeepTable, read_keep
from equipoise.data.keep.records import records
from equipoise.data.keep.rules import caption_weights, kept_captions
from equipoise.data.keep.source import KeptSource
from equipoise.data.source import Source
from equipoise.types import UserError


def kept_source(source: Source, folder: Path, rule: str, threshold: float) -> KeptSource:
    """The captions of `source` that the keep file in `folder` keeps, by its decisions or by another rule."""
    table, note = read_keep(folder)
    counts = matched(table, source, folder / TABLE)
    keep, weights = table.keep, table.weight
    if rule != "decision":
        keep = kept_captions(table.right, rule, threshold, _share(note, folder))
        weights = caption_weights(table.right, keep, rule)
    try:
        return KeptSource(source, counts, keep, None if (weights[keep] == 1).all() else weights)
    except UserError as error:
        raise UserError(f"{folder / TABLE}: {error}") from None


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


def _share(note: dict[str, object], folder: Path) -> float:
    share = note.get("noise")
    if not isinstance(share, float | int) or not 0 <= share <= 1:
        raise UserError(f'{folder / NOTE}: "noise" is {share!r}, and not a share of captions; clean the data again')
    return float(share)
