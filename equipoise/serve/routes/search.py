"""Searching by text, by picture and by both, and pictures like one that was found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field

from equipoise.index.index import IMAGE
from equipoise.serve.engine import Engine, Query
from equipoise.serve.errors import Refused, shown_name, shown_side
from equipoise.serve.service import FIRST, Service

SAMPLE = 12  # pictures to begin with
MOST_PARTS = 8  # texts, and pictures, of one query


class SearchRequest(BaseModel):
    """Pictures plus texts minus texts; one of the first three is needed."""

    model_config = ConfigDict(extra="forbid")

    texts: list[str] = Field(default=[], description="what the pictures should show", examples=[["a red fish"]])
    without: list[str] = Field(default=[], description="what they should not show; needs something to take it from")
    pictures: list[str] = Field(default=[], description="names of uploaded pictures (POST /api/pictures)")
    rows: list[int] = Field(default=[], description="pictures that were found: more like these")
    k: int = Field(default=24, ge=1, description="how many pictures to find")
    where: str | None = Field(default=None, description="a filter on side data, such as year >= 2020")
    model: str = Field(default=FIRST, description="first, or beside")
    version: str | None = Field(default=None, description="of the model; another one is answered with 409")


class FoundPicture(BaseModel):
    row: int
    score: float | None  # null where nothing was asked for
    name: str
    caption: str
    captions: list[str]
    side: dict[str, Any]
    has_picture: bool


class SearchAnswer(BaseModel):
    model: str
    version: str
    found: list[FoundPicture]


def routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["search"])

    @router.post("/api/search")
    async def search(request: SearchRequest) -> SearchAnswer:
        """The pictures closest to a text, a picture, or a sum of both, the closest first."""
        engine = service.engine(request.model, request.version)
        query = _query(request, service)
        hits = await service.searching[request.model].ask(query)
        found = await service.in_files(lambda: _found(engine, [(hit.row, hit.score) for hit in hits]))
        return SearchAnswer(model=engine.name, version=engine.version, found=found)

    @router.get("/api/sample")
    async def sample() -> SearchAnswer:
        """A few pictures of the index, always the same, to begin with."""
        engine = service.first
        found = await service.in_files(lambda: _found(engine, [(row, None) for row in engine.sample(SAMPLE)]))
        return SearchAnswer(model=engine.name, version=engine.version, found=found)

    @router.get("/api/rows/{row}/thumbnail", response_class=Response, responses={200: {"content": {"image/jpeg": {}}}})
    async def thumbnail(row: int, model: str = FIRST) -> Response:
        """A small picture of a row."""
        engine = service.engine(model)
        data = await service.in_files(lambda: engine.index.thumbnail(row))
        if data is None:
            raise Refused(404, "this record has no picture")
        return jpeg_response(data)

    return router


def jpeg_response(data: bytes) -> Response:
    return Response(data, media_type="image/jpeg", headers={"cache-control": "private, max-age=3600"})


def _query(request: SearchRequest, service: Service) -> Query:
    for name in ("texts", "without", "pictures", "rows"):
        if len(getattr(request, name)) > MOST_PARTS:
            raise Refused(422, f"{name} has more than {MOST_PARTS} entries; give fewer")
    texts, without = ([checked_text(text, service) for text in some] for some in (request.texts, request.without))
    if request.k > service.limits.found:
        raise Refused(422, f"k is {request.k}; ask for at most {service.limits.found} pictures")
    if request.where is not None and len(request.where) > service.limits.letters:
        raise Refused(422, f"the filter is longer than {service.limits.letters} letters; shorten it")
    pictures = tuple(service.uploads.get(name) for name in request.pictures)
    where = (request.where or "").strip() or None
    return Query(tuple(texts), tuple(without), pictures, tuple(request.rows), request.k, where)


def checked_text(text: str, service: Service) -> str:
    if len(text) > service.limits.letters:
        raise Refused(422, f"the text has {len(text):,} letters, and at most {service.limits.letters:,} are read here")
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise Refused(422, "the text holds signs that are no text; type it again")
    if not text.strip():
        raise Refused(422, "the text is empty; write something, or leave it out")
    return text.strip()


def _found(engine: Engine, hits: Sequence[tuple[int, float | None]]) -> list[FoundPicture]:
    records = engine.index.records([row for row, _ in hits])
    return [
        FoundPicture(
            row=row,
            score=score,
            name=shown_name(record.key),
            caption=record.caption,
            captions=list(record.captions),
            side=shown_side(record.side),
            has_picture=record.of == IMAGE,
        )
        for (row, score), record in zip(hits, records, strict=True)
    ]
