"""The code book: what each code stands for, and the codes of a word."""

from __future__ import annotations

from fastapi import APIRouter, Response
from pydantic import BaseModel, Field

from equipoise.serve.code_book import CodePages
from equipoise.serve.errors import Refused
from equipoise.serve.routes.search import checked_text, jpeg_response
from equipoise.serve.service import Service

PAGE = 60  # codes of one answer, at most


class Code(BaseModel):
    code: int
    words: list[str]
    pictures: list[int] = Field(description="numbers for /api/codes/pictures/NUMBER/thumbnail")
    share_image: float
    share_text: float
    share: float | None = Field(default=None, description="in the word that was asked for")
    usual: float | None = Field(default=None, description="its mean share over captions")


class CodesAnswer(BaseModel):
    total: int
    codes: list[Code]


def routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["code book"])

    @router.get("/api/codes")
    async def codes(start: int = 0, count: int = 24, word: str = "") -> CodesAnswer:
        """Codes, the most used first; or those that fire for a word."""
        pages = _pages(service)
        if start < 0 or not 1 <= count <= PAGE:
            raise Refused(422, f"start must be at least 0, and count from 1 to {PAGE}")
        if word:
            text = checked_text(word, service)
            found = await service.worker.run(lambda: pages.of_word(text))
            return CodesAnswer(total=len(found), codes=[Code(**one) for one in found])
        some, total = await service.worker.run(lambda: pages.some(start, count))
        return CodesAnswer(total=total, codes=[Code(**one) for one in some])

    @router.get("/api/codes/pictures/{item}/thumbnail", response_class=Response)
    async def picture(item: int) -> Response:
        """A picture that is relevant to a code."""
        pages = _pages(service)
        return jpeg_response(await service.in_files(lambda: pages.picture(item)))

    return router


def _pages(service: Service) -> CodePages:
    if service.codes is None:
        raise Refused(404, "this model has no code book; train one with readout.name = code_book")
    return service.codes
