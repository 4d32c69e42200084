"""What is served here: models, pictures, limits, a few texts to begin with."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel

from equipoise import __version__
from equipoise.serve.engine import Engine
from equipoise.serve.service import Service

EXAMPLES = 4
TRIED = 64  # pictures among whose captions examples are chosen
LENGTH = (8, 44)  # letters of a good example


class ModelAbout(BaseModel):
    name: str
    version: str
    rows: int
    space: str
    range: tuple[float, float] | None  # of scores; null where there is no bound
    explains: bool


class About(BaseModel):
    equipoise: str
    data: str
    models: dict[str, ModelAbout]
    examples: list[str]
    fields: dict[str, list[str]]  # what a filter may name, with the kinds of its values
    suspects: int | None  # captions to judge; null where there are none
    codes: bool
    read_only: bool
    upload_bytes: int
    pixels: int
    letters: int
    classes: int


def routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["about"])
    examples = _examples(service.first)

    @router.get("/api/about")
    async def about() -> About:
        """What this service offers."""
        limits = service.limits
        models = await service.in_files(lambda: {name: _model(service, name) for name in service.engines})
        return About(
            equipoise=__version__,
            data=service.about_data,
            models=models,
            examples=examples,
            fields={name: list(kinds) for name, kinds in service.first.index.fields.items()},
            suspects=None if service.suspects is None else len(service.suspects),
            codes=service.codes is not None,
            read_only=service.read_only,
            upload_bytes=limits.upload,
            pixels=limits.pixels,
            letters=limits.letters,
            classes=limits.classes,
        )

    return router


def _model(service: Service, name: str) -> ModelAbout:
    engine = service.engines[name]
    low, high = engine.model.space.range
    bounded = (low, high) if abs(low) + abs(high) < float("inf") else None
    return ModelAbout(
        name=engine.name,
        version=engine.version,
        rows=len(engine.index),
        space=type(engine.model.space).__name__,
        range=bounded,
        explains=engine.explains,
    )


def _examples(engine: Engine) -> list[str]:
    """A few captions of the pictures, short ones, always the same."""
    captions = dict.fromkeys(
        caption for record in engine.index.records(engine.sample(TRIED)) for caption in record.captions[:1]
    )
    short = [caption for caption in captions if LENGTH[0] <= len(caption) <= LENGTH[1]]
    return (short or list(captions))[:EXAMPLES]
