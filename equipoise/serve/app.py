"""The application: routes, answers to mistakes, and the guard before them."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from equipoise import __version__
from equipoise.index.index import Unreachable
from equipoise.serve.errors import UNEXPECTED, Refused
from equipoise.serve.guard import Access, Guard
from equipoise.serve.routes import about, classify, codes, explain, page, pictures, search, suspects
from equipoise.serve.service import Service
from equipoise.types import UserError

LOG = logging.getLogger("equipoise.serve")
SENTENCES = {
    400: "the request cannot be read; send JSON or a form",
    404: "there is nothing at this address",
    405: "this address does not take that method",
}


def build_app(service: Service, access: Access | None = None) -> ASGIApp:
    """The service as an ASGI application."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        service.close()

    app = FastAPI(
        title="Equipoise", version=__version__, description="Search pictures, name them, judge captions, see why.",
        docs_url=None, redoc_url=None, lifespan=lifespan,  # the pages of FastAPI load scripts from elsewhere
    )  # fmt: skip
    for topic in (about, search, pictures, classify, explain, suspects, codes):
        app.include_router(topic.routes(service))
    app.include_router(page.routes())
    _answer_mistakes(app, service)
    return Guard(app, access or Access(), service.limits)


def _answer_mistakes(app: FastAPI, service: Service) -> None:
    def said(code: int, sentence: str) -> JSONResponse:
        plain = sentence.encode("utf-8", "replace").decode()  # halves of characters, which no answer can hold
        return JSONResponse({"error": service.paths.without(plain)}, code)

    @app.exception_handler(Refused)
    async def refused(_: Request, error: Refused) -> JSONResponse:
        return said(error.code, str(error))

    @app.exception_handler(UserError)
    async def mistake(request: Request, error: UserError) -> JSONResponse:
        LOG.warning("%s: %s", request.url.path, error)
        if isinstance(error, Unreachable):  # whose sentence names the database
            return said(503, "the index does not answer just now; try again later, or tell whoever runs this service")
        return said(400, str(error))

    @app.exception_handler(RequestValidationError)
    async def misshapen(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            return said(422, f"the request is no JSON from its letter {first['loc'][-1]} on; mend it and send it again")
        place = ".".join(str(part) for part in first["loc"] if part != "body")
        if place == pictures.FIELD:
            return said(422, f'send the picture as a file of a form, in its field "{pictures.FIELD}"')
        return said(422, f"{place or 'the request'}: {first['msg'][:200]}")

    @app.exception_handler(HTTPException)
    async def other(_: Request, error: HTTPException) -> JSONResponse:
        return said(error.status_code, SENTENCES.get(error.status_code, str(error.detail)))

    @app.exception_handler(Exception)
    async def unexpected(_: Request, __: Exception) -> JSONResponse:
        return said(500, UNEXPECTED)
