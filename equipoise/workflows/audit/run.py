"""The audit from beginning to end: judges, their noise estimates, pairs in order of suspicion, near duplicates."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import numpy as np
import torch
from torch import Tensor

from equipoise.analysis.noise import Pairs
from equipoise.config import Loaded, dump, load_stored
from equipoise.data.copies.find import Copy
from equipoise.data.copies.watch import WatchedSource
from equipoise.data.keep.settings import Reading
from equipoise.data.source import Source, has_features, has_pictures
from equipoise.io.atomic import write_text
from equipoise.models.folder import CONFIG
from equipoise.models.model import Model
from equipoise.training.checkpoint.run_folder import locked_run, require_same
from equipoise.types import UserError
from equipoise.workflows.audit.copies import read_pictures
from equipoise.workflows.audit.folds import folds_of, judges, training_pairs
from equipoise.workflows.audit.judge import Judgement, judge_together, score_of
from equipoise.workflows.audit.pictures import PictureData
from equipoise.workflows.audit.points import Judge, PointsOf, points_here
from equipoise.workflows.audit.points_job import JudgedData
from equipoise.workflows.audit.report import Verdict, write_verdict
from equipoise.workflows.audit.shared_points import SharedPoints, has_scores
from equipoise.workflows.audit.stopwatch import JUDGING, READING, TRAINING, Stopwatch
from equipoise.workflows.audit.strangers import alike_images, fitting_texts
from equipoise.workflows.engines import Engine
from equipoise.workflows.load import load
from equipoise.workflows.subject import find_run


@dataclass(frozen=True)
class Audit:
    folds: int = 2
    judges: int = 1  # models a fold
    neighbours: int = 200  # closest strangers of each kind
    shuffled: float = 0.2  # share of pairs that are shuffled to check the reading
    seed: int = 0
    copies: bool = True  # whether to look for copies of pictures
    evidence: str = "ratio"  # what else to read off the judges (`analysis/evidence`)
    reading: Reading = "likelihood"  # how the share of wrong pairs is read

    def __post_init__(self) -> None:
        if self.neighbours < 0:
            raise UserError(f"--neighbours is {self.neighbours}; ask for none (0) or more")
        if self.reading not in get_args(Reading):
            raise UserError(f"the reading must be one of {', '.join(get_args(Reading))}, found {self.reading!r}")


Look = Callable[[Sequence[int], Pairs, Model, Judgement], None]  # at a fold, while its points are at hand


def run_audit(
    data: str,
    recipe: str,
    overrides: Sequence[str],
    model: Path | None,
    settings: Audit,
    folder: Path,
    engine: Engine = Engine(),  # noqa: B008 (frozen)
    pictures: str = "",
) -> int:
    """Audit DATA, with judges of `recipe` where it is files, or with the model at a path; `pictures` names those that
    features were made of. Returns the exit status."""
    shown = PictureData.named(pictures) if pictures else None
    loaded = find_run(data, recipe, overrides, trains=model is None)
    try:
        judge = load(model, loaded.run.training.torch_device()) if model else None
        source = training_pairs(loaded.run)
        source = shown.beside(source) if shown else source
        with scoring_by(engine, JudgedData(data, recipe, tuple(overrides)), model, folder) as points_of:
            audit_data(loaded, settings, folder, judge, points_of=points_of, source=source)
    except KeyboardInterrupt:
        print("Stopped; the same command goes on where it was")
        return 128 + signal.SIGINT
    return 0


@contextmanager
def scoring_by(engine: Engine, data: JudgedData, model: Path | None, folder: Path) -> Iterator[PointsOf]:
    """How points are computed: here, or by the engine that was asked for, which was there before judges are trained.

    What several processes left behind in `folder` this one goes on with.
    """
    if engine.is_this_process and not has_scores(folder):
        yield points_here
        return
    engine.require()
    with SharedPoints(data, engine, folder, model).kept_until_done() as points_of:
        yield points_of


def audit_data(
    loaded: Loaded,
    settings: Audit,
    folder: Path,
    model: Model | None = None,
    look: Look | None = None,
    points_of: PointsOf = points_here,
    clock: Stopwatch | None = None,
    source: Source | None = None,
) -> Verdict:
    """Judge all training pairs of a recipe and write what was found to `folder`; `source` holds them where features
    have their pictures beside them.

    Without a model, judges are trained on the pairs themselves, fold by fold; what is finished is not done again.
    A model that is given judges all pairs at once. It must not have been trained on them.
    """
    plain = source or training_pairs(loaded.run)
    watching = settings.copies or model is None  # copies are reported, and kept in one fold
    watched, clock = WatchedSource(plain) if watching else None, clock or Stopwatch(None)
    source = watched or plain
    with locked_run(folder):
        _require_same(folder, loaded, has_judges=model is None)
        with clock.on(JUDGING):
            if model is None:
                with clock.on(READING):
                    parts = folds_of(source, settings.folds, settings.seed, loaded.run.preprocess.size)
                panel = judges(loaded, parts, folder, settings.seed, members=settings.judges)
            else:
                parts, panel = [tuple(range(len(source)))], iter([iter([Judge(model)])])
                if watched and has_features(plain) and has_pictures(plain):  # the model reads no picture
                    with clock.on(READING):
                        read_pictures(watched, loaded.run.preprocess.size)
            judged: list[tuple[tuple[int, ...], Judgement]] = []
            first: Judge | None = None
            score = score_of(settings.evidence, settings.seed, loaded.run.training.learning_rate)
            for part, members in zip(parts, panel, strict=True):
                trained = clock.each(TRAINING, members)
                by = (settings.shuffled, score, points_of, settings.reading)
                seen = judge_together(source, part, trained, settings.seed, *by)
                first = first or seen.judge
                judged.append((part, seen.judgement))
                if look:
                    look(part, seen.points, seen.judge.model, seen.judgement)
            assert first is not None
            copies = watched.copies() if watched and settings.copies else None
            verdict = _verdict(source, judged, settings, first, copies, points_of)
            write_verdict(verdict, source, folder)
    return verdict


def _verdict(
    source: Source,
    judged: list[tuple[tuple[int, ...], Judgement]],
    settings: Audit,
    member: Judge,
    copies: list[Copy] | None,
    points_of: PointsOf,
) -> Verdict:
    owners = torch.cat([torch.tensor(part)[found.image_of_text] for part, found in judged])
    order = owners.argsort(stable=True)
    scale, count = judged[0][1].reading.scale, settings.neighbours
    sought = count > 0 and len(source) > 1  # strangers, by one judge
    alike = alike_images(source, copies or [], count, settings.seed) if sought else []
    by = (member, scale, points_of, owners[order], count, settings.seed)
    fitting = fitting_texts(source, *by) if sought else []
    return Verdict(
        readings=[found.reading for _, found in judged],
        checks=[found.check for _, found in judged],
        sizes=[len(part) for part, _ in judged],
        parts=[part for part, _ in judged],
        shuffled=settings.shuffled,
        owners=owners[order].numpy(),
        right=_gathered([found.right for _, found in judged], order),
        log_ratio=_gathered([found.log_ratio for _, found in judged], order),
        similarity=_gathered([found.similarity for _, found in judged], order),
        fitted=_gathered([found.fitted for _, found in judged], order),
        margin=_gathered([found.margin for _, found in judged], order),
        alike=alike,
        fitting=fitting,
        aurocs=[found.auroc for _, found in judged],
        knowing=[found.knows for _, found in judged],
        copies=copies or [],
        scores=_gathered_scores([found.scores for _, found in judged], order),
        decoys=[found.decoys for _, found in judged],
        read_by=settings.reading,
    )


def _gathered(parts: list[Tensor], order: Tensor) -> np.ndarray:
    return torch.cat(parts)[order].numpy()


def _gathered_scores(parts: list[Tensor | None], order: Tensor) -> np.ndarray | None:
    known = [part for part in parts if part is not None]
    return torch.cat(known, dim=1)[:, order].numpy() if known else None


def _require_same(folder: Path, loaded: Loaded, has_judges: bool) -> None:
    """Raises UserError where the folder holds another audit; the same one may be resumed. Judges that were trained
    would not be trained further, so they cannot become longer as a run may."""
    if (folder / CONFIG).is_file():
        stored = load_stored(folder / CONFIG).table
        require_same(folder, stored, loaded.table)
        before, now = (table["training"]["steps"] for table in (stored, loaded.table))
        if has_judges and before != now:
            raise UserError(
                f"the judges in {folder} train for {before} steps, and {now} are asked for; choose another --out"
            )
    write_text(folder / CONFIG, dump(loaded.table))
