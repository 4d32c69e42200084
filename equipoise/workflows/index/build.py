"""`equipoise index`: make an index of data, add to it, delete from it."""

from __future__ import annotations

import hashlib
import shutil
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from equipoise.data.source import Source, has_features
from equipoise.evaluation.encoding import encode_image_subset
from equipoise.index import ModelNote, open_index, require_same_model
from equipoise.index.faiss_search import require_kind
from equipoise.index.manifest import MANIFEST
from equipoise.index.write import Making, add, create, delete
from equipoise.io.folder_lock import only_writer
from equipoise.io.numbers import hand_over
from equipoise.models.fingerprint import fingerprint
from equipoise.models.model import Model
from equipoise.types import UserError
from equipoise.workflows.index.embedding import Wanted, embed
from equipoise.workflows.load import load

TRIED = 200  # queries by which recall is measured


def build_index(wanted: Wanted, folder: Path, making: Making) -> None:
    """Make an index of the data in a new folder."""
    if (folder / MANIFEST).exists():
        raise UserError(f"{folder} holds an index already; add to it with `equipoise index add`, or choose another")
    model, note = _model(wanted.model)
    require_kind(making.kind, model.space)
    place = _work_folder(folder, wanted, note)
    with only_writer(place):
        embedded = embed(model, wanted, note.fingerprint, place)
        queries = None if making == Making() else _queries(model, embedded.source)
        measured = create(folder, model.space, note, embedded.rows(), making, queries)
    _finish(folder)
    _tell(folder, "was made")
    _tell_recall(measured, making)


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


def _queries(model: Model, source: Source) -> Tensor | None:
    """Points of captions from all over the data, as people will search with; of pictures where there are none."""
    numbers = range(0, len(source), max(1, len(source) // TRIED))
    captions = [pair.captions[0] for pair in map(source.pair, numbers) if pair.captions]
    if has_features(source):
        return None if not len(source) else encode_image_subset(model, source, numbers).float().cpu()
    if captions:
        return model.encode_text(captions).float().cpu()
    return None


def _tell_recall(measured: Mapping[str, Any], making: Making) -> None:
    if not measured:
        return
    share = measured["recall@10"]
    print(f"Of the ten closest to {measured['queries']} captions of the data it finds {share:.1%} (recall@10)")
    hand_over(measured)
    if share < making.recall:
        warnings.warn(
            f"recall@10 is {share:.3f}, below the {making.recall:g} asked for; --kind exact with --dtype float32 finds "
            "all of them",
            stacklevel=2,
        )


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
