"""The rows of a keep file that are those of a source, record by record and caption by caption."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np

from equipoise.data.keep.file import KeepTable
from equipoise.data.keep.records import records
from equipoise.data.source import Source
from equipoise.types import Notice, UserError

REFUSE, DROP = "refuse", "drop"  # what is done with records of which the file says nothing


def matched(table: KeepTable, source: Source, path: Path, unknown: str = REFUSE) -> tuple[np.ndarray, np.ndarray]:
    """Captions of each record [N], and the rows of the table that are theirs, in order.

    The table may decide on further records, such as those that are held out for validation; those that it does not name
    have no captions where `unknown` is to drop them. Raises UserError where it is not of this source, caption by
    caption."""
    counts, here, row = np.zeros(len(source), dtype=np.int64), list[range](), 0
    known, missing = set(table.keys) if unknown == DROP else None, list[str]()
    for index, (key, texts) in enumerate(records(source)):
        if known is not None and key not in known:
            missing.append(key)
            continue
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
    _tell_of_missing(missing, len(source), path)
    rows = np.fromiter((place for places in here for place in places), dtype=np.int64, count=int(counts.sum()))
    if len(rows) < len(table):
        further = int((table.captions == 0).sum()) - (len(source) - len(missing))
        warnings.warn(f"{path} decides on {further:,} records that are not trained on here", Notice, stacklevel=3)
    return counts, rows


def _tell_of_missing(missing: list[str], records: int, path: Path) -> None:
    if not missing:
        return
    if len(missing) == records:
        raise _other_data(path, "it names none of its records")
    told = f'{path} says nothing of {len(missing):,} of {records:,} records, "{missing[0]}" the first'
    warnings.warn(f"{told}; they are left out", Notice, stacklevel=4)


def _row_of(table: KeepTable, key: str, start: int, path: Path) -> int:
    """The row at which a record begins, from `start` on."""
    found = next((row for row in range(start, len(table)) if table.keys[row] == key), None)
    if found is None:
        raise _mismatch(table, start, key, path)
    return found


def _mismatch(table: KeepTable, row: int, key: str, path: Path) -> UserError:
    if key not in set(table.keys):
        return UserError(
            f'{path} says nothing of the record "{key}", so it is of other data, or the data has grown, or its '
            "picture could not be read for judging; clean the data again, or leave such records out: keep.unknown=drop"
        )
    there = f'"{table.keys[row]}"' if row < len(table) else "nothing"
    return _other_data(path, f'"{key}" stands here where {there} stands there')


def _other_data(path: Path, difference: str) -> UserError:
    return UserError(f"{path} is of other data: {difference}; give the folder that was cleaned from this data")
