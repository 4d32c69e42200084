"""An index in a folder, open for searching.

    index.json          what it is and which of the folders are of it (`manifest.py`)
    segment-00000/      rows that were written together (`segment.py`)
    deleted-00003.bin   rows that are no more, int64, ascending

A search asks every segment and takes the best of all. A segment that faiss knows gives candidates, whose similarity is
then computed from the points themselves; one without, or of which a filter leaves little, is searched whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from equipoise.index.closest import Closest
from equipoise.index.faiss_search import EFFORTS, USUAL, FaissSearch
from equipoise.index.filters.columns import allowed
from equipoise.index.filters.parse import parse, require_fields
from equipoise.index.index import Found, Index, Record, no_row, numbers_of
from equipoise.index.manifest import Listed, Manifest, read_manifest
from equipoise.index.points import AGAIN, TILE
from equipoise.index.segment import ROW, Segment, open_segment
from equipoise.io.digests import file_digest
from equipoise.types import UserError

FILTERS_KEPT = 16  # answers of filters that are remembered
SPARSE = 8  # of so many rows one passes: then single rows are read, not all
FEW = 20_000  # rows that are compared with a query one by one sooner than faiss is asked


class FolderIndex(Index):
    def __init__(self, folder: Path):
        self.folder = folder
        self.manifest: Manifest = read_manifest(folder)
        self.space = self.manifest.built_space(str(folder / "index.json"))
        self.model, self.kind = self.manifest.model, self.manifest.kind
        self.segments = [open_segment(folder / s.name, s.sha256, self.space.dim) for s in self.manifest.segments]
        self.deleted = read_deleted(folder, self.manifest.deleted)
        self._alive = [~np.isin(segment.rows, self.deleted) for segment in self.segments]
        self._passing = lru_cache(FILTERS_KEPT)(self._filtered)
        self._faiss = [self._faiss_of(segment) for segment in self.segments]
        self.effort = int(self.manifest.recall.get("effort", USUAL.get(self.kind, 0)))

    def _faiss_of(self, segment: Segment) -> FaissSearch | None:
        path = segment.search_file
        return None if path is None else FaissSearch(path, self.kind, len(segment), self.space.dim)

    @property
    def efforts(self) -> tuple[int, ...]:
        return EFFORTS[self.kind] if any(self._faiss) else (0,)

    def __len__(self) -> int:
        return sum(int(alive.sum()) for alive in self._alive)

    @property
    def modality(self) -> Mapping[str, int]:
        counts = Counter[str]()
        for segment, alive in zip(self.segments, self._alive, strict=True):
            for of in segment.of:
                counts[of] += int((segment.columns.where_text("of", of.__eq__) & alive).sum())
        return dict(counts)

    @property
    def fields(self) -> Mapping[str, tuple[str, ...]]:
        kinds: dict[str, set[str]] = {}
        for segment in self.segments:
            for name, of_field in segment.columns.fields.items():
                kinds.setdefault(name, set()).update(of_field)
        return {name: tuple(sorted(several)) for name, several in kinds.items()}

    def _search(self, points: Tensor, k: int, where: str) -> Found:
        closest = Closest(self.space, points, k)
        for segment, search, passing in zip(self.segments, self._faiss, self._passing(where), strict=True):
            count = int(np.count_nonzero(passing))
            if search is None or count <= max(FEW, k):
                search_all(segment, closest, passing, count)
            else:
                self._search_candidates(segment, search, closest, passing, count)
        return closest.found()

    def _search_candidates(
        self, segment: Segment, search: FaissSearch, closest: Closest, passing: np.ndarray, count: int
    ) -> None:
        found = search.candidates(closest.queries, closest.k, self.effort, passing, count / len(segment))
        for query, several in enumerate(found):
            places = np.sort(several[several >= 0])
            if len(places) >= closest.k:
                closest.add_own(query, segment.row_numbers(places), segment.points.take(places))
            else:  # the lists or nodes that were looked at held too few that pass
                alone = closest.alone(query)
                search_all(segment, alone, passing, count)
                closest.add_found(query, alone.found())

    def _filtered(self, where: str) -> list[np.ndarray]:
        """Which rows of each segment can be found."""
        if not where:
            return self._alive
        tree = parse(where)
        require_fields(tree, self.fields)
        return [allowed(tree, s.columns) & alive for s, alive in zip(self.segments, self._alive, strict=True)]

    def matching(self, where: str) -> np.ndarray:
        """The rows that a filter lets through."""
        found = [s.rows[passing] for s, passing in zip(self.segments, self._passing(where), strict=True)]
        return np.concatenate([np.empty(0, ROW), *found])

    def rows_of_keys(self, keys: set[str]) -> np.ndarray:
        """The rows of the records with these keys."""
        both = zip(self.segments, self._alive, strict=True)
        found = [s.rows[s.columns.where_text("key", keys.__contains__) & alive] for s, alive in both]
        return np.concatenate([np.empty(0, ROW), *found])

    def records(self, rows: Tensor | Sequence[int]) -> list[Record]:
        return [segment.record(place) for segment, place in map(self._find, numbers_of(rows))]

    def points(self, rows: Tensor | Sequence[int]) -> Tensor:
        found = [segment.points.take(np.array([place])) for segment, place in map(self._find, numbers_of(rows))]
        return torch.cat([torch.empty(0, self.space.dim), *found])

    def thumbnail(self, row: int) -> bytes | None:
        segment, place = self._find(row)
        return segment.thumbnail(place)

    def _find(self, row: int) -> tuple[Segment, int]:
        for segment, alive in zip(self.segments, self._alive, strict=True):
            place = segment.place(row)
            if place is not None and alive[place]:
                return segment, place
        raise no_row(row)


def search_all(segment: Segment, closest: Closest, passing: np.ndarray, count: int) -> None:
    """Compare the queries with every row that passes, tile by tile."""
    if count < len(segment) // SPARSE:
        for places in np.array_split(np.flatnonzero(passing), -(-count * segment.points.width // TILE) or 1):
            closest.add(segment.row_numbers(places), segment.points.take(places))
        return
    for start, tile in segment.points.tiles():
        part = passing[start : start + len(tile)]
        if part.all():
            closest.add(segment.row_numbers(slice(start, start + len(tile))), tile)
        else:
            places = np.flatnonzero(part)
            closest.add(segment.row_numbers(places + start), tile[torch.from_numpy(places)])


def read_deleted(folder: Path, listed: Listed | None) -> np.ndarray:
    """The rows that are no more; raises UserError where the file is not the one that was written."""
    if listed is None:
        return np.empty(0, ROW)
    path = folder / listed.name
    if not path.is_file() or file_digest(path) != listed.sha256:
        raise UserError(f"{path} is missing, or not the one that was written; {AGAIN}")
    return np.fromfile(path, ROW)
