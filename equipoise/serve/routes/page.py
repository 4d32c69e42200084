"""The page's own files, read once; nothing else of the disk can be asked for."""

from __future__ import annotations

from importlib.resources import files

from fastapi import APIRouter, Response

from equipoise.serve.errors import Refused

TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


def routes() -> APIRouter:
    router = APIRouter(include_in_schema=False)
    kept = {
        path.name: (path.read_bytes(), TYPES[path.name.rpartition(".")[2]])
        for path in files("equipoise.serve").joinpath("page").iterdir()
        if path.name.rpartition(".")[2] in TYPES
    }

    @router.get("/")
    async def page() -> Response:
        return _response(*kept["index.html"])

    @router.get("/page/{name}")
    async def part(name: str) -> Response:
        if name not in kept:
            raise Refused(404, "there is no such page")
        return _response(*kept[name])

    return router


def _response(content: bytes, kind: str) -> Response:
    return Response(content, media_type=kind, headers={"cache-control": "no-cache"})
