"""All that is served: one model or two beside each other, pictures that were given, suspects, a code book."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from PIL import Image

from equipoise.serve.code_book import CodePages
from equipoise.serve.engine import Engine, Hit, Query
from equipoise.serve.errors import Paths, Refused
from equipoise.serve.limits import Limits
from equipoise.serve.suspects import Suspects
from equipoise.serve.uploads import Uploads
from equipoise.serve.worker import Together, Worker

T = TypeVar("T")
FIRST, BESIDE = "first", "beside"


@dataclass
class Service:
    engines: dict[str, Engine]  # FIRST, and BESIDE where two models are compared
    limits: Limits = field(default_factory=Limits)
    suspects: Suspects | None = None
    codes: CodePages | None = None
    read_only: bool = False
    about_data: str = ""  # in a few words
    folders: tuple[Path, ...] = ()  # whose paths stay here

    def __post_init__(self) -> None:
        self.worker = Worker(self.limits.waiting)
        self.files = ThreadPoolExecutor(2, "files")  # decodes pictures and reads and writes files meanwhile
        self.uploads = Uploads(self.limits, self.first.model.preprocess.size)
        self.searching = {
            name: Together[Query, list[Hit]](self.worker, engine.search) for name, engine in self.engines.items()
        }
        self.paths = Paths(self.folders)

    @property
    def first(self) -> Engine:
        return self.engines[FIRST]

    def engine(self, name: str, version: str | None = None) -> Engine:
        """The model of that name; raises Refused where there is none, or another version of it is asked for."""
        if name not in self.engines:
            raise Refused(404, f'there is no model "{name}" here; choose one of {", ".join(self.engines)}')
        engine = self.engines[name]
        if version is not None and version != engine.version:
            raise Refused(
                409, f"version {version} of the model is asked for, and {engine.version} is served; load the page again"
            )
        return engine

    async def picture(self, engine: Engine, upload: str | None, row: int | None) -> Image.Image:
        """A picture that was given, or one of the index."""
        if (upload is None) == (row is None):
            raise Refused(422, "name one picture: the name of one that was uploaded, or the row of one that was found")
        if upload is not None:
            return self.uploads.get(upload)
        assert row is not None
        return await self.in_files(lambda: engine.picture_of(row))

    async def in_files(self, work: Callable[[], T]) -> T:
        """Do work that needs no model, beside the model's thread."""
        return await asyncio.get_running_loop().run_in_executor(self.files, work)

    def close(self) -> None:
        self.worker.close()
        self.files.shutdown(wait=False, cancel_futures=True)
        for engine in self.engines.values():
            engine.index.close()
