"""`equipoise index`: make an index of data, add to it, delete from it, merge what was added."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from torch import Tensor

from equipoise.data.source import Source, has_features
from equipoise.evaluation.encoding import encode_image_subset
from equipoise.index import ModelNote, open_index, require_same_model
from equipoise.index.folder import FolderIndex
from equipoise.index.index import IMAGE, TEXT
from equipoise.index.making import Making
from equipoise.index.merge import merge
from equipoise.index.open import is_address, store_at
from equipoise.io.folder_lock import only_writer
from equipoise.io.numbers import hand_over
from equipoise.models.fingerprint import fingerprint
from equipoise.models.modal_model import ModalModel
from equipoise.models.model import Model
from equipoise.types import UserError
from equipoise.workflows.index.embedding import Wanted, embed
from equipoise.workflows.index.modalities import modal_queries
from equipoise.workflows.load import load

TRIED = 200  # queries by which recall is measured
MANY = 8  # segments, from which on merging is advised


def build_index(wanted: Wanted, out: Path | None, to: str, making: Making) -> None:
    """Make an index of the data in a new folder, or in a database."""
    if out is None and not to:
        raise UserError("nothing says where the index is to be; give a folder with --out, or a database with --to")
    if to and not is_address(to):
        raise UserError("--to takes an address that begins with postgresql://; for a folder there is --out")
    where = to or str(out)
    store, model = store_at(where), load(wanted.model, "auto")
    note = ModelNote(str(wanted.model), fingerprint(wanted.model))
    store.prepare(making, model.space)
    with _work_folder(out, wanted, note) as place:
        embedded = embed(model, wanted, note.fingerprint, place)
        queries = None if making.is_lossless else _queries(model, embedded.source, wanted)
        measured = store.create(model.space, note, embedded.rows(), making, queries)
    _tell(where, "was made")
    _tell_recall(measured, making)


def add_to_index(wanted: Wanted, where: str, replace: bool) -> None:
    """Add the data's records to an index that is there."""
    note = ModelNote(str(wanted.model), fingerprint(wanted.model))
    index = open_index(where)
    require_same_model(index, note.fingerprint, str(wanted.model))
    index.close()
    with _work_folder(None if is_address(where) else Path(where), wanted, note) as place:
        embedded = embed(load(wanted.model, "auto"), wanted, note.fingerprint, place)
        added = store_at(where).add(embedded.rows(), replace)
    hand_over({"added": added})
    _tell(where, f"grew by {added:,} rows")


def delete_from_index(where: str, keys: Sequence[str], chosen: str) -> None:
    """Delete the records with these keys, or those that a filter lets through."""
    if not keys and not chosen.strip():
        raise UserError("nothing says what to delete; give keys, or a filter with --where")
    deleted = store_at(where).delete(set(keys), chosen.strip())
    if not deleted:
        what = f"with the key {keys[0]!r}" if keys else f"that {chosen!r} lets through"
        raise UserError(f"there is no record {what}; nothing was deleted")
    hand_over({"deleted": deleted})
    _tell(where, f"lost {deleted:,} rows")


def merge_index(folder: Path, recall: float) -> None:
    """Make one segment of all those of an index in a folder."""
    Making(recall=recall)  # raises UserError for what is no share
    merged = merge(folder, recall)
    hand_over({"segments": merged.segments, "dropped": merged.dropped})
    if merged.segments < 2 and not merged.dropped:
        print(f"The index {folder} has {merged.segments} segment and no deleted rows: there is nothing to merge")
        return
    _tell(str(folder), f"was merged, of {merged.segments} segments, without {merged.dropped:,} deleted rows")
    _tell_recall(merged.recall, Making(recall=recall))


def _queries(model: Model, source: Source, wanted: Wanted) -> Tensor | None:
    """Points of captions from all over the data, as people will search with; of pictures where there are none."""
    numbers = range(0, len(source), max(1, len(source) // TRIED))
    if isinstance(model, ModalModel):
        return modal_queries(model, source, numbers, wanted.parts(model))
    captions = [pair.captions[0] for pair in map(source.pair, numbers) if pair.captions]
    if has_features(source) and source.text_width is not None:
        return encode_image_subset(model, source, numbers).float().cpu()
    return model.encode_text(captions).float().cpu() if captions else None


@contextmanager
def _work_folder(folder: Path | None, wanted: Wanted, note: ModelNote) -> Iterator[Path]:
    """Where points are kept until they are in the index: one folder for each data, so that work that was stopped is
    resumed; without a folder for the index, it is not."""
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="equipoise-index-") as temporary:
            yield Path(temporary)
        return
    words = "\n".join((note.fingerprint, wanted.data, *wanted.overrides, wanted.split or "", wanted.of))
    place = folder / f".embedding-{hashlib.sha256(words.encode()).hexdigest()[:12]}"
    is_new = not folder.exists()
    try:
        with only_writer(place):
            yield place
    except BaseException:
        if is_new:
            with suppress(OSError):  # work that never began leaves nothing
                folder.rmdir()
        raise
    for path in folder.glob(".embedding-*"):
        shutil.rmtree(path, ignore_errors=True)  # also of other data, that was given up


def _tell(where: str, what: str) -> None:
    index = open_index(where)
    pairs = set(index.modality) <= {IMAGE, TEXT}
    counts = ", ".join(_counted(of, count, pairs) for of, count in index.modality.items()) or "nothing"
    shown = "The index in the database" if is_address(where) else f"The index {where}"
    print(f"{shown} {what}: {counts}, searched by {index.kind}")
    if isinstance(index, FolderIndex) and len(index.segments) >= MANY:
        print(f"Each of its {len(index.segments)} segments is searched by itself; `equipoise index merge` makes one")
    hand_over({"rows": len(index), "kind": index.kind, **index.modality})
    index.close()


def _counted(of: str, count: int, pairs: bool) -> str:
    return f"{count:,} {of}s" if pairs else f"{count:,} of {of}"


def _tell_recall(measured: Mapping[str, Any], making: Making) -> None:
    if not measured:
        return
    share = measured["recall@10"]
    print(f"Of the ten closest to {measured['queries']} records of the data it finds {share:.1%} (recall@10)")
    hand_over(measured)
    if share < making.recall:
        warnings.warn(
            f"recall@10 is {share:.3f}, below the {making.recall:g} asked for; --kind exact with --dtype float32 finds "
            "all of them",
            stacklevel=2,
        )
