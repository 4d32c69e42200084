"""Pictures that visitors give: uploaded once, then named in searches, classifications and explanations."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, File, UploadFile
from pydantic import BaseModel

from equipoise.serve.service import Service

FIELD = "file"  # of the form


class GivenPicture(BaseModel):
    picture: str  # its name
    width: int  # as it is remembered
    height: int


def routes(service: Service) -> APIRouter:
    router = APIRouter(tags=["pictures"])

    @router.post("/api/pictures")
    async def upload(
        file: Annotated[UploadFile, File(description="JPEG, PNG, WebP, GIF, BMP or TIFF")],
    ) -> GivenPicture:
        """Give a picture; it is remembered for a while, and its name is for you alone."""
        data = await file.read()
        name = await service.in_files(lambda: service.uploads.add(data))
        picture = service.uploads.get(name)
        return GivenPicture(picture=name, width=picture.width, height=picture.height)

    return router
