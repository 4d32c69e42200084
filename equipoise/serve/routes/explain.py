"""Why a picture and a text fit: the places and the words that their similarity rests on."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from equipoise.models.explanation import Explanation
from equipoise.serve.routes.search import checked_text
from equipoise.serve.service import FIRST, Service


class ExplainRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    text: str = Field(examples=["a red fish"])
    picture: str | None = Field(default=None, description="the name of an uploaded picture")
    row: int | None = Field(default=None, description="or the row of a picture of the index")
    model: str = FIRST
    version: str | None = None


class WordShare(BaseModel):
    text: str
    start: int
    stop: int
    relevance: float


class ExplainAnswer(BaseModel):
    method: str
    similarity: float
    text: str
    places: list[list[float]]  # shares of the picture's places, rows from the top
    words: list[WordShare]
    resize: str  # which part of the picture was seen: shortest, its middle square; squash, all of it


def routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["explanations"])

    @router.post("/api/explain")
    async def explain(request: ExplainRequest) -> ExplainAnswer:
        """Shares of relevance of the picture's places and the text's words; docs/explain.md says what they mean."""
        engine = service.engine(request.model, request.version)
        text = checked_text(request.text, service)
        picture = await service.picture(engine, request.picture, request.row)
        found = await service.worker.run(lambda: engine.explain(picture, text))
        return _answer(found, engine.model.preprocess.resize)

    return router


def _answer(found: Explanation, resize: str) -> ExplainAnswer:
    words = [WordShare(**vars(word)) for word in found.words]
    return ExplainAnswer(
        method=found.method, similarity=found.similarity, text=found.text, places=found.places.tolist(), words=words,
        resize=resize,
    )  # fmt: skip
