"""Many segments of an index in a folder made into one, without the rows that were deleted.

Every `add` writes a segment, and a search asks each of them; small ones are searched whole, whatever the kind. Merged,
rows keep their numbers, points their bits, records and thumbnails their bytes. faiss sees all points at once, and how
far it looks is chosen anew, by 200 of the stored points beside a search of all of them: the queries that the index was
made with are not kept. `index.json` is written last: a merge that is killed leaves the index as it was. Whoever has the
index open goes on with the former segments, which the next change of the index removes, or a second merge.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.index.closest import Closest
from equipoise.index.faiss_search import build
from equipoise.index.folder import FolderIndex
from equipoise.index.making import COUNTED, Making
from equipoise.index.manifest import Listed, Manifest
from equipoise.index.recall import measure
from equipoise.index.segment import SEARCH, Segment, SegmentWriter, seal
from equipoise.index.write import clear
from equipoise.io.atomic import replacing
from equipoise.io.folder_lock import only_writer

AT_ONCE = 4096  # rows in memory
TRIED = 200  # stored points by which recall is measured


@dataclass(frozen=True)
class Merged:
    segments: int  # that there were
    dropped: int  # deleted rows whose space was given back
    recall: dict[str, Any]  # where faiss searches


def merge(folder: Path, recall: float = Making.recall) -> Merged:
    """Make one segment of all; nothing is written where there is one without deleted rows."""
    with only_writer(folder):
        index = FolderIndex(folder)
        clear(folder, index.manifest)
        if len(index.segments) < 2 and not len(index.deleted):
            return Merged(len(index.segments), 0, {})
        dropped = sum(map(len, index.segments)) - len(index)
        merged = _written(folder, index)
        merged.write(folder)
        measured = _measured(FolderIndex(folder), recall)
        if measured:
            merged = merged.changed(recall=measured)
            merged.write(folder)
    return Merged(len(index.segments), dropped, measured)


def _written(folder: Path, index: FolderIndex) -> Manifest:
    """The manifest of an index with one segment, which is there; with none, where no row is left."""
    if not len(index):
        return index.manifest.changed(segments=(), deleted=None)
    path = folder / f"segment-{index.manifest.changes:05d}"
    with replacing(path) as temporary:
        temporary.mkdir()
        writer = SegmentWriter(temporary, index.manifest.dtype)
        for segment, places in _living(index):
            writer.copy(segment, places)
        writer.finish()
        points = Segment(temporary, index.space.dim).points
        build(index.kind, points, index.manifest.dtype, index.space, temporary / SEARCH)
        digest = seal(temporary)
    return index.manifest.changed(segments=(Listed(path.name, digest),), deleted=None)


def _living(index: FolderIndex) -> Iterator[tuple[Segment, np.ndarray]]:
    """Places of rows that are not deleted, in the order of their numbers, some at a time."""
    for segment in index.segments:  # later ones have larger numbers
        places = np.flatnonzero(~np.isin(segment.rows, index.deleted))
        for start in range(0, len(places), AT_ONCE):
            yield segment, places[start : start + AT_ONCE]


def _measured(index: FolderIndex, wanted: float) -> dict[str, Any]:
    """Recall of what faiss finds; empty where it is not asked."""
    if not any(segment.search_file for segment in index.segments):
        return {}
    (segment,) = index.segments
    queries = segment.points.take(np.unique(np.linspace(0, len(segment) - 1, TRIED).astype(int)))
    truth = Closest(index.space, queries, COUNTED)
    for start, tile in segment.points.tiles():
        truth.add(segment.row_numbers(slice(start, start + len(tile))), tile)
    return measure(index, truth, wanted)
