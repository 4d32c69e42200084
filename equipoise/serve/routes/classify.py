"""Zero-shot: which of the classes that a visitor types a picture is of."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from equipoise.data.files.classes import DEFAULT_TEMPLATES, checked_names, checked_templates
from equipoise.serve.errors import Refused
from equipoise.serve.routes.search import checked_text
from equipoise.serve.service import FIRST, Service


class ClassifyRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    classes: list[str] = Field(description="names to choose among, two at least", examples=[["a fish", "a star"]])
    picture: str | None = Field(default=None, description="the name of an uploaded picture")
    row: int | None = Field(default=None, description="or the row of a picture of the index")
    template: str = Field(default=DEFAULT_TEMPLATES[0], description="the sentence, {} for the class's name")
    model: str = FIRST
    version: str | None = None


class Guess(BaseModel):
    name: str
    probability: float
    similarity: float


class ClassifyAnswer(BaseModel):
    model: str
    guesses: list[Guess]


def routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["zero-shot"])

    @router.post("/api/classify")
    async def classify(request: ClassifyRequest) -> ClassifyAnswer:
        """How well each class's name fits the picture; probabilities are among these classes alone."""
        engine = service.engine(request.model, request.version)
        classes = _classes(request, service)
        (template,) = checked_templates((checked_text(request.template, service),), "template")
        picture = await service.picture(engine, request.picture, request.row)
        guesses = await service.worker.run(lambda: engine.classify(picture, classes, template))
        return ClassifyAnswer(
            model=engine.name, guesses=[Guess(name=name, probability=p, similarity=s) for name, p, s in guesses]
        )

    return router


def _classes(request: ClassifyRequest, service: Service) -> tuple[str, ...]:
    if len(request.classes) > service.limits.classes:
        raise Refused(422, f"more than {service.limits.classes} classes are given; choose among fewer")
    names = tuple(checked_text(name, service) for name in request.classes)
    if len(names) < 2:
        raise Refused(422, f"there is nothing to choose among {len(names)} classes; name two at least")
    return checked_names(names, "classes")
