"""Suspicious captions to judge, and the judgements, in the decisions file that training goes by."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field

from equipoise.serve.better_captions import BetterCaptions
from equipoise.serve.errors import Refused, shown_name
from equipoise.serve.routes.search import jpeg_response
from equipoise.serve.service import Service
from equipoise.serve.suspects import Suspect, Suspects

PAGE = 50  # suspects of one answer, at most


class SuspectAnswer(BaseModel):
    row: int
    name: str
    caption: int
    text: str
    others: list[str]
    right: float = Field(description="the probability that the caption belongs to its picture")
    kind: str = Field(description="what seems wrong: another (caption), (a) detail, vague; empty where nothing does")
    kept: bool = Field(description="what the rule decided")
    decision: str | None = Field(description="what a person decided")
    instead: str | None = Field(description="the caption that takes its place, where it was swapped")


class SuspectsAnswer(BaseModel):
    finding: str
    total: int
    judged: int
    read_only: bool
    suspects: list[SuspectAnswer]


class Judgement(BaseModel):
    model_config = ConfigDict(extra="forbid")

    decision: Literal["keep", "drop", "swap"] | None = Field(description="null takes a decision back")
    instead: int | None = Field(default=None, description="the row of the caption to swap it for")


class Judged(BaseModel):
    suspect: SuspectAnswer
    judged: int


class Better(BaseModel):
    row: int | None = Field(description="of the caption; null where none fits better")
    text: str = ""
    by: float = Field(default=0.0, description="how much more similar to the picture it is")


def routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["suspects"])
    better = None if service.suspects is None else BetterCaptions(service.first.model, service.suspects)

    @router.get("/api/suspects")
    async def suspects(start: int = 0, count: int = 20) -> SuspectsAnswer:
        """Captions, the least likely right first."""
        held = _held(service)
        if start < 0 or not 1 <= count <= PAGE:
            raise Refused(422, f"start must be at least 0, and count from 1 to {PAGE}")
        some, decisions = await service.in_files(lambda: (held.some(start, count), held.decisions()))
        return SuspectsAnswer(
            finding=held.finding, total=len(held), judged=len(decisions.keep), read_only=service.read_only,
            suspects=[_shown(one) for one in some],
        )  # fmt: skip

    @router.get("/api/suspects/{row}/thumbnail", response_class=Response)
    async def picture(row: int) -> Response:
        """The picture of a suspect."""
        held = _held(service)
        return jpeg_response(await service.in_files(lambda: held.picture(row)))

    @router.get("/api/suspects/{row}/better")
    async def better_caption(row: int) -> Better:
        """The caption of another record that this model finds fits the picture best, if any fits better."""
        held = _held(service)
        assert better is not None
        held.one(row)
        found = await service.worker.run(lambda: better.of(row))
        return Better(row=None) if found is None else Better(row=found.row, text=found.text, by=found.by)

    @router.post("/api/suspects/{row}")
    async def judge(row: int, judgement: Judgement) -> Judged:
        """Keep, drop or swap a caption; null takes it back."""
        held = _held(service)
        if service.read_only:
            raise Refused(403, "this service is for looking alone (--read-only); nothing was written")
        decisions = await service.in_files(lambda: held.decide(row, judgement.decision, judgement.instead))
        one = await service.in_files(lambda: held.one(row))
        return Judged(suspect=_shown(one), judged=len(decisions.keep))

    return router


def _held(service: Service) -> Suspects:
    if service.suspects is None:
        raise Refused(
            404, "there are no suspects here; clean the data first, or start the service with --suspects FOLDER"
        )
    return service.suspects


def _shown(one: Suspect) -> SuspectAnswer:
    return SuspectAnswer(
        row=one.row, name=shown_name(one.key), caption=one.caption, text=one.text, others=list(one.others),
        right=one.right, kind=one.kind, kept=one.kept, decision=one.decision, instead=one.instead,
    )  # fmt: skip
