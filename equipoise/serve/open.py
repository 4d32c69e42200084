"""What a request to serve names, opened and checked: models, indexes, suspects, a code book."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from equipoise.data.keep.file import NOTE
from equipoise.data.source import Source
from equipoise.index import Index, ModelNote, open_index, require_same_model
from equipoise.models.fingerprint import fingerprint
from equipoise.models.model import Model
from equipoise.readouts import CodeBookReadout
from equipoise.serve.code_book import CodePages
from equipoise.serve.engine import Engine
from equipoise.serve.memory_index import Pictures, memory_index, read_pictures
from equipoise.serve.request import ServeRequest
from equipoise.serve.service import BESIDE, FIRST, Service
from equipoise.serve.suspects import Suspects
from equipoise.types import UserError
from equipoise.workflows.load import load
from equipoise.workflows.subject import Subject

SPLIT = "validation"
SUSPECTS = "clean"  # the folder of a run that cleaned its data, within the run's
SAMPLE = 64  # rows by which two indexes are compared


def open_service(request: ServeRequest) -> Service:
    """All that is served; raises UserError for what does not go together."""
    if request.beside is not None and bool(request.index) != bool(request.beside_index):
        raise UserError("two models with --index need an index each, of the same data; give --beside-index as well")
    if request.beside is None and request.beside_index:
        raise UserError("--beside-index belongs to a second model; give --beside RUN as well")
    own = cache(lambda: read_pictures(_validation(request.run)))
    engines = {FIRST: _engine(request.run, request.index, own)}
    if request.beside is not None:
        engines[BESIDE] = _engine(request.beside, request.beside_index, own)
        _require_same_rows(*engines.values())
    first = engines[FIRST]
    return Service(
        engines=engines,
        limits=request.limits,
        suspects=_suspects(request),
        codes=_codes(first.model, request.run),
        read_only=request.read_only,
        about_data=f"{len(first.index):,} {'entries' if request.index else 'pictures of its validation data'}",
        folders=tuple(_folders(request)),
    )


def _engine(run: Path, where: str, own: Callable[[], Pictures]) -> Engine:
    model, version = load(run, "auto"), fingerprint(run)
    name = run.resolve().name
    if model.image_encoder.reads != "pictures" or model.text_encoder.reads != "words":
        raise UserError(f"{run} reads features instead of pictures and words, so nothing can be searched with it")
    if where:
        index: Index = open_index(where)
        require_same_model(index, version, str(run))
    else:
        index = memory_index(model, ModelNote(name, version), own())
    return Engine(name, version, model, index)


def _require_same_rows(first: Engine, second: Engine) -> None:
    """Raise UserError unless a row is the same record in both indexes, as far as a sample tells."""
    rows = first.sample(SAMPLE)
    same = len(first.index) == len(second.index)
    with suppress(UserError):  # a row that is not there
        if same and [one.key for one in first.index.records(rows)] == [one.key for one in second.index.records(rows)]:
            return
    raise UserError(
        f"the indexes of {first.name} and {second.name} are not of the same data, so they cannot be compared; "
        "index the same data with both models"
    )


def _validation(run: Path) -> Source:
    """The run's own validation data, as its settings name it."""
    try:
        return Subject(run, split=SPLIT).source()
    except UserError as error:
        raise UserError(f"{error} (or serve an index of other data with --index FOLDER)") from None


def _suspects(request: ServeRequest) -> Suspects | None:
    if request.suspects is not None:
        return Suspects(request.suspects)
    folder = request.run / SUSPECTS
    return Suspects(folder) if (folder / NOTE).is_file() else None


def _codes(model: Model, run: Path) -> CodePages | None:
    if not isinstance(model.image_readout, CodeBookReadout):
        return None
    return CodePages(model, lambda: _validation(run))


def _folders(request: ServeRequest) -> Iterator[Path]:
    """Whose paths stay here: those that were named, and the folders above them."""
    for path in (request.run, request.suspects, request.beside, request.index, request.beside_index):
        if path and "://" not in str(path):
            place = Path(path)
            yield from (place, *place.resolve().parents)
