"""Further rounds of judges: each trained on what the round before kept of the folds that it does not judge."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from equipoise.config import Loaded, Run
from equipoise.data.keep.source import KeptSource
from equipoise.data.source import Source
from equipoise.io.atomic import clear_leftovers
from equipoise.workflows.audit.folds import HeldOutData, judges, training_pairs
from equipoise.workflows.audit.judge import judge_together, score_of
from equipoise.workflows.audit.points import PointsOf, points_here
from equipoise.workflows.audit.run import Look
from equipoise.workflows.audit.stopwatch import TRAINING, Stopwatch
from equipoise.workflows.clean.probability import Evidence

ROUND = "round-{}"


@dataclass(frozen=True)
class KeptHeldOutData(HeldOutData):
    """The captions that were kept, without those of one fold, which serves as validation and test as it is."""

    owners: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))  # [M] record of each caption
    keep: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool))  # [M]

    def build(self, split: str) -> Source:
        if split != "train":
            return super().build(split)
        whole = training_pairs(self.run)
        return KeptSource(whole, np.bincount(self.owners, minlength=len(whole)), self._chosen)

    def selection(self) -> str:
        return hashlib.sha256(np.packbits(self._chosen).tobytes()).hexdigest()

    @property
    def _chosen(self) -> np.ndarray:
        """Bool [M]: the captions to learn from."""
        return self.keep & (~np.isin(self.owners, self.fold) | self.run.clean.seen)


def further_round(
    loaded: Loaded,
    source: Source,
    parts: list[tuple[int, ...]],
    folder: Path,
    first: Evidence,
    keeps: Sequence[np.ndarray],
    look: Look | None,
    number: int,
    clock: Stopwatch,
    points_of: PointsOf = points_here,
) -> Evidence:
    """The evidence of the judges of round `number` on all captions; the judge `j` of each fold learns from `keeps[j]`
    [M]."""

    def held_out(run: Run, part: tuple[int, ...], member: int) -> KeptHeldOutData:
        return KeptHeldOutData(run, part, first.owners, keeps[member])

    settings, place = loaded.run.clean, folder / ROUND.format(number)
    clear_leftovers(place)  # of a judge whose removal was interrupted
    score = score_of(settings.evidence, settings.seed, loaded.run.training.learning_rate)
    panel = judges(loaded, parts, place, settings.seed, held_out, settings.judges)
    judged = []
    for part, members in zip(parts, panel, strict=True):
        trained = clock.each(TRAINING, members)
        seen = judge_together(source, part, trained, settings.seed, 0.2, score, points_of, settings.reading)
        judged.append(seen.judgement)
        if look:
            look(part, seen.points, seen.judge.model, seen.judgement)
    owners = np.concatenate([np.array(part)[one.image_of_text] for part, one in zip(parts, judged, strict=True)])
    order = np.argsort(owners, kind="stable")
    ratios = torch.cat([one.log_ratio for one in judged]).numpy()[order]
    readings, aurocs, knowing = zip(*((one.reading, one.auroc, one.knows) for one in judged), strict=True)
    scores = [one.scores for one in judged if one.scores is not None]
    read = torch.cat(scores, dim=1).numpy()[:, order] if scores else None
    told = (readings, aurocs, knowing, first.sizes, read, [one.decoys for one in judged])
    return Evidence(ratios, first.owners, first.fold, *told)
