"""Making and changing an index in a folder, one writer at a time.

Rows are added as a new segment, and deleted by writing down their numbers; no file that is there is ever changed.
`index.json` is written last and names them, so that a writer that is killed leaves the index as it was; what it wrote
is removed by the next.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from equipoise.index.closest import Closest
from equipoise.index.faiss_search import build, require_kind
from equipoise.index.folder import FolderIndex
from equipoise.index.index import ModelNote
from equipoise.index.making import COUNTED, Making, Rows, compared, noting, require_width
from equipoise.index.manifest import MANIFEST, Listed, Manifest
from equipoise.index.recall import measure
from equipoise.index.segment import ROW, SEARCH, Segment, SegmentWriter, seal
from equipoise.index.stored_space import space_table
from equipoise.io.atomic import replacing
from equipoise.io.digests import file_digest
from equipoise.io.folder_lock import only_writer
from equipoise.spaces import Space
from equipoise.types import UserError


def prepare(folder: Path, making: Making, space: Space) -> None:
    """Raise UserError where an index cannot be made so, or the folder holds one."""
    require_kind(making.kind, space)
    if (folder / MANIFEST).exists():
        raise UserError(f"{folder} holds an index already; add to it with `equipoise index add`, or choose another")


def create(
    folder: Path,
    space: Space,
    model: ModelNote,
    rows: Iterable[Rows],
    making: Making | None = None,
    queries: Tensor | None = None,
) -> dict[str, Any]:
    """Make an index in a folder that holds none. With `queries` [Q, d], gives the recall that was measured by them, and
    how far faiss looks is chosen so that it is reached."""
    making = making or Making()
    with only_writer(folder):
        prepare(folder, making, space)
        start = Manifest(making.kind, making.dtype, space_table(space), model)
        truth = None if queries is None or making.is_lossless else Closest(space, queries, COUNTED)
        with _segment(folder, start, space, compared(rows, truth)) as manifest:
            if not manifest.next_row:
                raise UserError("there is nothing to index: the data has no records that can be read")
            manifest.write(folder)
        if truth is not None:
            measured = measure(FolderIndex(folder), truth, making.recall)
            manifest.changed(recall=measured).write(folder)
            return measured
    return {}


def add(folder: Path, rows: Iterable[Rows], replace: bool = False) -> int:
    """Add rows to an index, without touching those that are there; gives how many. With `replace`, records whose keys
    are there already take the place of those; without, that raises UserError."""
    with only_writer(folder):
        index = FolderIndex(folder)
        clear(folder, index.manifest)
        keys: set[str] = set()
        with _segment(folder, index.manifest, index.space, noting(rows, keys)) as manifest:
            added = manifest.next_row - index.manifest.next_row
            old = index.rows_of_keys(keys)
            if len(old) and not replace:
                first = index.records([int(old[0])])[0].key
                raise UserError(
                    f'the index has a record "{first}" already, and {len(old):,} rows of such in all; replace them '
                    "with --replace, or delete them first"
                )
            deleted = np.union1d(index.deleted, old)
            (_with_deleted(folder, manifest, deleted) if len(old) else manifest).write(folder)
    return added


def delete(folder: Path, keys: set[str], where: str = "") -> int:
    """Delete the rows of these keys, or those that a filter lets through; gives how many."""
    with only_writer(folder):
        index = FolderIndex(folder)
        clear(folder, index.manifest)
        doomed = index.rows_of_keys(keys) if keys else np.empty(0, ROW)
        if where:
            doomed = np.union1d(doomed, index.matching(where))
        if len(doomed):
            manifest = index.manifest.changed()
            _with_deleted(folder, manifest, np.union1d(index.deleted, doomed)).write(folder)
    return len(doomed)


def clear(folder: Path, manifest: Manifest) -> None:
    """Remove segments and lists of deleted rows that the manifest does not name: a writer was killed, or they were
    replaced."""
    named = {listed.name for listed in (*manifest.segments, manifest.deleted) if listed is not None}
    for path in (*folder.glob("segment-*"), *folder.glob("deleted-*")):
        if path.name not in named:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


@contextmanager
def _segment(folder: Path, manifest: Manifest, space: Space, rows: Iterable[Rows]) -> Iterator[Manifest]:
    """Write rows as a segment; yields the manifest that names it, which is left to the caller to write."""
    path = folder / f"segment-{manifest.changes:05d}"
    if path.exists():  # of a writer that was killed before it wrote the manifest
        shutil.rmtree(path)
    with replacing(path) as temporary:
        temporary.mkdir()
        next_row = _write_rows(temporary, manifest, space, rows)
        digest = seal(temporary)
    try:
        yield manifest.changed(segments=(*manifest.segments, Listed(path.name, digest)), next_row=next_row)
    except BaseException:  # nothing names it
        shutil.rmtree(path, ignore_errors=True)
        raise


def _write_rows(folder: Path, manifest: Manifest, space: Space, rows: Iterable[Rows]) -> int:
    writer, next_row = SegmentWriter(folder, manifest.dtype), manifest.next_row
    for part in rows:
        require_width(part.points, space)
        writer.add(range(next_row, next_row + len(part.points)), part.points, part.records, part.thumbs)
        next_row += len(part.points)
    writer.finish()
    if next_row > manifest.next_row:
        segment = Segment(folder, space.dim)
        build(manifest.kind, segment.points, manifest.dtype, space, folder / SEARCH)
    return next_row


def _with_deleted(folder: Path, manifest: Manifest, rows: np.ndarray) -> Manifest:
    path = folder / f"deleted-{manifest.changes:05d}.bin"
    with replacing(path) as temporary:
        rows.astype(ROW).tofile(temporary)
    return dataclasses.replace(manifest, deleted=Listed(path.name, file_digest(path)))
