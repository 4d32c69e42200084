"""`equipoise index`: make an index of data, add to it, delete from it."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from pathlib import Path

from equipoise.index import ModelNote, open_index, require_same_model
from equipoise.index.manifest import MANIFEST
from equipoise.index.write import Making, add, create, delete
from equipoise.io.folder_lock import only_writer
from equipoise.io.numbers import hand_over
from equipoise.models.fingerprint import fingerprint
from equipoise.models.model import Model
from equipoise.types import UserError
from equipoise.workflows.index.embedding import Wanted, embed
from equipoise.workflows.load import load


def build_index(wanted: Wanted, folder: Path, making: Making) -> None:
    """Make an index of the data in a new folder."""
    if (folder / MANIFEST).exists():
        raise UserError(f"{folder} holds an index already; add to it with `equipoise index add`, or choose another")
    model, note = _model(wanted.model)
    place = _work_folder(folder, wanted, note)
    with only_writer(place):
        embedded = embed(model, wanted, note.fingerprint, place)
        create(folder, model.space, note, embedded.rows(), making)
    _finish(folder)
    _tell(folder, "was made")


def add_to_index(wanted: Wanted, where_index: str, replace: bool) -> None:
    """Add the data's records to an index that is there."""
    folder = Path(where_index)
    require_same_model(open_index(folder), fingerprint(wanted.model), str(wanted.model))
    model, note = _model(wanted.model)
    place = _work_folder(folder, wanted, note)
    with only_writer(place):
        embedded = embed(model, wanted, note.fingerprint, place)
        added = add(folder, embedded.rows(), replace)
    if not added:
        raise UserError(f"{wanted.data}: there is nothing to add: the data has no records that can be read")
    _finish(folder)
    hand_over({"added": added})
    _tell(folder, f"grew by {added:,} rows")


def delete_from_index(where_index: str, keys: Sequence[str], where: str) -> None:
    """Delete the records with these keys, or those that a filter lets through."""
    folder = Path(where_index)
    if not keys and not where:
        raise UserError("nothing says what to delete; give keys, or a filter with --where")
    deleted = delete(folder, set(keys), where)
    if not deleted:
        what = f"with the key {keys[0]!r}" if keys else f"that {where!r} lets through"
        raise UserError(f"{folder} has no record {what}; nothing was deleted")
    hand_over({"deleted": deleted})
    _tell(folder, f"lost {deleted:,} rows")


def _model(path: Path) -> tuple[Model, ModelNote]:
    return load(path, "auto"), ModelNote(str(path), fingerprint(path))


def _work_folder(folder: Path, wanted: Wanted, note: ModelNote) -> Path:
    """Where points are kept until they are in the index: one folder for each data, so that work is resumed or not."""
    words = "\n".join((note.fingerprint, wanted.data, *wanted.overrides, wanted.split or "", wanted.of))
    return folder / f".embedding-{hashlib.sha256(words.encode()).hexdigest()[:12]}"


def _finish(folder: Path) -> None:
    for path in folder.glob(".embedding-*"):
        shutil.rmtree(path, ignore_errors=True)


def _tell(folder: Path, what: str) -> None:
    index = open_index(folder)
    counts = ", ".join(f"{count:,} {of}s" for of, count in index.modality.items())
    print(f"The index {folder} {what}: {counts}, searched by {index.kind}")
    hand_over({"rows": len(index), "folder": str(folder), "kind": index.kind, **index.modality})
