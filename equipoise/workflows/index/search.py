"""`equipoise search`: what is closest to a text, a picture, a record of the index, or a sample of named modalities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from equipoise.index import Index, Record, open_index, require_same_model
from equipoise.index.index import IMAGE, MOST_FOUND, TEXT
from equipoise.io.lines import one_line
from equipoise.io.numbers import hand_over
from equipoise.models.compatibility import require_compatible
from equipoise.models.fingerprint import fingerprint
from equipoise.models.modal_model import ModalModel
from equipoise.types import JOINT, UserError
from equipoise.workflows.index.modalities import sample_point
from equipoise.workflows.load import load
from equipoise.workflows.subject import find_source, names_files

SHOWN = 60  # characters of a caption
FIRST = (JOINT, IMAGE)  # of several rows of one record, these are meant where nobody says


@dataclass(frozen=True)
class Query:
    """What to look for: one of the first three."""

    text: str = ""
    image: Path | None = None
    like: str = ""  # the key of a record: of the index, or of `data`
    by: str = ""  # which of the record's rows or modalities
    data: str = ""  # a recipe, or files
    overrides: Sequence[str] = ()
    split: str | None = None

    def __post_init__(self) -> None:
        if self.data:
            names_files(self.data)  # a name with two meanings raises UserError before a model is loaded

    def require_one(self, model: Path) -> None:
        given = [bool(self.text.strip()), self.image is not None, bool(self.like)]
        if not any(given) and not model.exists():
            raise UserError(f"{model} is no model folder; it comes between the index and the text")
        if sum(given) != 1:
            raise UserError(
                "say what to look for: a text, a picture with --image, or a record with --like; one of them"
            )
        if not self.like and (self.by or self.data):
            raise UserError("--by and --data belong to --like KEY; say which record to look for, or leave them out")
        if not self.data and (self.overrides or self.split):
            raise UserError("--set and --split belong to --data; say which data they are of, or leave them out")


def search(where_index: str, model_path: Path, query: Query, top: int, where: str) -> None:
    """Print the rows closest to what is looked for; a row of the index is not among its own answers."""
    query.require_one(model_path)
    index = open_index(where_index)
    require_same_model(index, fingerprint(model_path), str(model_path))
    own = stored_row(index, query.like, query.by) if query.like and not query.data else None
    points = index.points([own]) if own is not None else _encoded(model_path, query)
    found = index.search(points, top + (own is not None and 0 < top < MOST_FOUND), where)
    both = zip(found.rows[0].tolist(), found.scores[0].tolist(), strict=True)
    hits = [(row, score) for row, score in both if row >= 0 and row != own][:top]
    results = []
    for (row, score), record in zip(hits, index.records([row for row, _ in hits]), strict=True):
        print(f"{score:8.4f}  {one_line(record.name)}  {_told(record)}")
        results.append({"row": row, "score": score, "key": record.key, "of": record.of, "captions": record.captions})
    if not hits:
        print("There is nothing to find: no record passes the filter" if where else "The index is empty")
    hand_over({"results": results})
    index.close()


def stored_row(index: Index, key: str, by: str) -> int:
    """The row of a record of the index, by one of the names that its rows go by."""
    rows = index.rows_of_keys({key}).tolist()
    if not rows:
        raise UserError(f'the index has no record "{key}"; look its key up, or name the data it is in with --data')
    of = {record.of: row for row, record in zip(reversed(rows), index.records(rows[::-1]), strict=True)}
    if by and by not in of:
        raise UserError(
            f'the index has no row of "{key}" by "{by}", but by {", ".join(reversed(of))}; say one of these'
        )
    return of[by] if by else next((of[name] for name in FIRST if name in of), rows[0])


def _encoded(model_path: Path, query: Query) -> Tensor:
    model = load(model_path, "auto")
    if not query.like:
        return model.encode_text([query.text]) if query.image is None else model.encode_image([query.image])
    if not isinstance(model, ModalModel):
        raise UserError("--data belongs to models of named modalities; give the picture itself with --image")
    source, _ = find_source(query.data, query.overrides, query.split or "train", of_files=query.split is not None)
    require_compatible(model, source)
    return sample_point(model, source, query.like, query.by)


def _told(record: Record) -> str:
    """What is known of a row, in a few words: its caption, or its modality and label."""
    of_pairs = bool(record.captions) or (record.of == IMAGE and "label" not in record.side)
    if record.of not in (IMAGE, TEXT) or not of_pairs:
        return "  ".join((record.of, one_line(str(record.side.get("label", "")))))
    caption = one_line(record.caption)
    return caption[:SHOWN] + "…" * (len(caption) > SHOWN)
