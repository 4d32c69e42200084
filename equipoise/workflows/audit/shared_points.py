"""The points by which pairs are judged, computed by several processes or machines (`points_job.py`).

OUT/.scoring-DIGEST/ is of one judge and one fold. It stays until the whole command is done: one that was stopped goes
on with the points that are missing, whether it was scoring or training a later judge.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from equipoise.analysis.noise import Pairs
from equipoise.data.bad_records import Fault
from equipoise.data.copies.watch import WatchedSource
from equipoise.data.digest import source_digest
from equipoise.data.remap import subset
from equipoise.data.source import Source, inner_source
from equipoise.data.unreadable_pictures import BlankPictures
from equipoise.evaluation.encoding import captions
from equipoise.io.folder_lock import locked, only_writer
from equipoise.io.json_files import read_json_table
from equipoise.models.folder import WEIGHTS, model_folder, read_tensors
from equipoise.training.checkpoint.finished_work import SCORES
from equipoise.types import UserError
from equipoise.workflows.audit.points import Judge
from equipoise.workflows.audit.points_job import IMAGES, TEXTS, JudgedData, PointsJob, unpacked
from equipoise.workflows.embed.encoders import digest_of
from equipoise.workflows.engines import Engine


def has_scores(out: Path) -> bool:
    """Whether a command that was stopped left points of several processes behind."""
    return any(out.glob(f"{SCORES}*"))


@dataclass
class SharedPoints:
    """In place of `points_here`; what is computed is not computed again."""

    data: JudgedData
    engine: Engine
    out: Path  # of the audit
    given: Path | None = None  # the model that judges, where none is trained
    scoring: bool = False

    def __call__(self, judge: Judge, source: Source, part: Sequence[int]) -> Pairs:
        """The points of the records `part` of a source. It is told of its pictures what it would have seen itself."""
        self.scoring = True  # and stays so where that fails
        model = judge.folder or self.given
        assert model is not None, "a judge is trained in a folder or given by its path"
        whole = len(part) == len(source)
        # of judges that are trained all pictures were looked at before
        watched = inner_source(source, WatchedSource) if judge.folder is None else None
        some = subset(source, part)
        place = self._place(model, part, source_digest(some), watched is not None)
        found: dict[str, list[Tensor]] = {}
        for of in (IMAGES, TEXTS):
            numbers = range(len(source)) if whole else tuple(part)
            job = PointsJob(self.data, model, numbers, place, of, watched is not None)
            with only_writer(place / of):
                paths = job.write(self.engine, judge.model, self._plain)
                found[of] = [_read(path, source, watched) for path in paths]
        none, texts = torch.empty(0, judge.model.space.dim), captions(some, 0)
        images, distinct = (torch.cat(found[of]) if found[of] else none for of in (IMAGES, TEXTS))
        self.scoring = False
        return Pairs(images, distinct[texts.distinct()[1]], texts.image_of_text)

    @contextmanager
    def kept_until_done(self) -> Iterator[SharedPoints]:
        """Remove the points when all is done with them, also where judges turn out to know nothing; not where somebody
        is to start again."""
        try:
            yield self
        except UserError:
            if not self.scoring:
                self._remove()
            raise
        self._remove()

    def _remove(self) -> None:
        if not has_scores(self.out):
            return
        with suppress(UserError), locked(self.out):  # another command may have begun here
            for place in self.out.glob(f"{SCORES}*"):
                shutil.rmtree(place, ignore_errors=True)

    @cached_property
    def _plain(self) -> Source:
        return self.data.build()

    def _place(self, model: Path, part: Sequence[int], data: str, watch: bool) -> Path:
        words = f"{self.data} {model} {digest_of(model_folder(model) / WEIGHTS)} {data} {watch}"
        digest = hashlib.sha256(words.encode())
        digest.update(np.asarray(part, dtype=np.int64).tobytes())
        return self.out / f"{SCORES}{digest.hexdigest()[:12]}"


def _read(path: Path, source: Source, watched: WatchedSource | None) -> Tensor:
    """The points in a file; the source is told of the pictures they are of."""
    tensors = read_tensors(path)
    words = read_json_table(path.with_suffix(".json"), "remove this folder")
    blank = inner_source(source, BlankPictures)
    for number, where, reason in words.get("faults", ()):
        if blank is not None:
            blank.note(number, Fault(where, reason))
    if watched is not None and "numbers" in tensors:
        watched.add(tensors["numbers"].tolist(), unpacked(tensors))
    return tensors["points"]
