"""Cleaning while a model is trained: `[clean] online = true`, without a pass of judges over the data before it.

K judges, one per fold, each trained on the other folds alone, advance beside the model, which is trained on all pairs.
Before every part of the run (`every` epochs of the model) each judge gives its evidence on its own fold, which it never
saw; the moving average of that (`moving_evidence.py`) weighs the pairs:

    wᵢ = P(right) = σ(aᵢ + log((1 - π_k) / π_k)),   with siblings as in `probability.py`

Judges run ahead of the model by a part, so its first part has weights too. Parts shorter than an epoch judge the pairs
alone that they draw, so that data which is seen once is judged once, as it comes. Pairs of which nothing is known count
in full. Judges train on the pairs of their folds unweighted, so that what they read of π is that of a first round.

Each judge and the model is a run of its own that stops after its part and goes on, and every part depends on stored
numbers alone: a run that is stopped anywhere goes on to the same bits.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

import numpy as np

from equipoise.config import Loaded, Run
from equipoise.data.caption_exchange import caption_counts
from equipoise.data.caption_shuffle import Shuffle
from equipoise.data.keep.file import TABLE, require_pyarrow
from equipoise.data.keep.rules import WEIGHTS, caption_weights
from equipoise.data.keep.settings import Clean, Keep
from equipoise.data.keep.source import KeptSource
from equipoise.data.sampling import EpochSampler
from equipoise.data.source import Source
from equipoise.io.atomic import clear_leftovers
from equipoise.models.folder import step_folders, step_number
from equipoise.models.model import Model
from equipoise.training.distributed.ranks import Ranks
from equipoise.training.loop import TrainResult
from equipoise.training.settings import Training
from equipoise.types import UserError
from equipoise.workflows.audit.folds import HeldOutData, folds_of, require_same_fold, training_pairs
from equipoise.workflows.audit.judge import Judgement, judge
from equipoise.workflows.audit.points import Judge, points_here
from equipoise.workflows.audit.stopwatch import JUDGING, READING, TRAINING, Stopwatch
from equipoise.workflows.clean.judging_run import judging_run
from equipoise.workflows.clean.moving_evidence import averaged, evidence_of, store, stored
from equipoise.workflows.clean.probability import Evidence
from equipoise.workflows.clean.run import Cleaned, write_table
from equipoise.workflows.clean.training import FOLDER
from equipoise.workflows.clean.truth import measured
from equipoise.workflows.clean.undecided import undecided
from equipoise.workflows.load import load
from equipoise.workflows.start_model import Start
from equipoise.workflows.train_model import train_run

SHUFFLED = 0.2  # of a judge's check on itself
LEAST = 32  # pairs of each fold in a part: a judge tells right from wrong by comparing pairs


def train_online(
    loaded: Loaded, folder: Path, ranks: Ranks, start: Start | None = None
) -> tuple[Loaded, Model | None, TrainResult]:
    """Train by a recipe whose pairs are judged meanwhile; also the run as its report tells of it, with a keep file, or
    as it was where no judge knows anything at the end (`undecided.py`). No model where it was stopped while pairs were
    judged."""
    place = folder / FOLDER
    if ranks.world > 1:
        raise UserError(
            "clean.online judges pairs in one process; run `equipoise clean` first, and train with its folder: "
            "keep.folder"
        )
    require_pyarrow(place / TABLE)
    clear_leftovers(place)  # of a kill
    clock, done = Stopwatch(place), _steps_done(folder)
    pairs = JudgedPairs(loaded, place, clock)
    known = stored(place)
    if done and not known:
        raise UserError(f"{place} has lost its online-*.npz, without which the run cannot go on; start it anew")
    for until in pairs.parts(done):
        try:
            with clock.on(JUDGING):
                known = pairs.judged(until, known)
        except KeyboardInterrupt:
            return loaded, None, TrainResult([], _steps_done(folder), 0.0, 0, signal.SIGINT)
        model, outcome = train_run(pairs.weighed(known[1]), folder, ranks, start, until)
        if outcome.signal:
            break
    if known and not outcome.signal:
        if sentence := undecided(place):
            ranks.print(sentence)
            return loaded, model, outcome
        with clock.on(JUDGING):
            pairs.write(known[1])
    return Loaded(replace(loaded.run, clean=Clean(), keep=Keep(str(place))), loaded.table), model, outcome


@dataclass(frozen=True)
class WeighedData:
    """The data of a run whose training pairs count by weights [M], one per caption."""

    run: Run
    counts: np.ndarray  # [N] captions of each record
    weights: np.ndarray  # [M]

    def build(self, split: str) -> Source:
        if split != "train":
            return self.run.data.build(split)
        return KeptSource(training_pairs(self.run), self.counts, np.ones(len(self.weights), dtype=bool), self.weights)


class JudgedPairs:
    """The training pairs of one run, and the judges of its folds, which lie in `place`."""

    def __init__(self, loaded: Loaded, place: Path, clock: Stopwatch):
        self.loaded, self.place, self.clock, self.settings = loaded, place, clock, loaded.run.clean
        self.judging, self.source = judging_run(loaded), training_pairs(loaded.run)
        self.ends = part_ends(self.settings, loaded.run.training, len(self.source))
        with clock.on(READING):
            self.counts = caption_counts(self.source)
            self.folds = folds_of(self.source, self.settings.folds, self.settings.seed, loaded.run.preprocess.size)

    def parts(self, done: int) -> list[int]:
        """The steps that parts of the run end with, from the first that is not done; the last one at least."""
        return [end for end in self.ends if end > done] or self.ends[-1:]

    def judged(self, until: int, before: tuple[int, Evidence] | None) -> tuple[int, Evidence]:
        """The evidence that the part up to step `until` of the model is weighed by, for that step."""
        if before and before[0] == until:
            return before
        own_steps, steps = self.judging.run.training.steps, self.loaded.run.training.steps
        as_far = -(-own_steps * until // steps)
        asked = self._asked(until)
        told = [self._judgement(number, as_far, part) for number, part in enumerate(asked)]
        found = evidence_of(told, asked, self.folds, self.counts)
        evidence = averaged(found, before[1] if before else None, self.settings.momentum)
        store(self.place, until, evidence)
        return until, evidence

    def weighed(self, evidence: Evidence) -> Loaded:
        """The run on all pairs, by their weights."""
        right = evidence.right(self.settings.per)
        weights = caption_weights(right, np.ones(len(right), dtype=bool), WEIGHTS)
        data = WeighedData(self.loaded.run, self.counts, weights)
        run = replace(self.loaded.run, data=data, shuffle=Shuffle(), clean=Clean())  # type: ignore[arg-type]
        return Loaded(run, self.loaded.table)

    def write(self, evidence: Evidence) -> None:
        """The keep file of what is known at the end."""
        right = evidence.right(self.settings.per)
        keep = np.ones(len(right), dtype=bool)
        truth = measured(self.source, evidence.owners, right, keep)
        cleaned = Cleaned(evidence, right, keep, len(self.source), truth)
        write_table(cleaned, evidence, [], self.source, self.loaded, self.place)

    def _asked(self, until: int) -> list[tuple[int, ...]]:
        """The records of each fold that are judged for the part up to step `until`."""
        if self.settings.every >= 1:
            return self.folds
        since = max((end for end in self.ends if end < until), default=0)
        drawn = self._drawn(since, until)
        return [tuple(sorted(drawn.intersection(part))) for part in self.folds]

    def _drawn(self, since: int, until: int) -> set[int]:
        """The records that the model's batches after step `since`, up to step `until`, are made of."""
        records = np.flatnonzero(self.counts)  # in the order of `KeptSource`
        order = EpochSampler(len(records), self.loaded.run.training.batch_size, self.loaded.run.seed)
        return {int(records[index]) for position in range(since, until) for index in order.batch(position)}

    def _judgement(self, number: int, until: int, asked: Sequence[int]) -> Judgement:
        """What a judge says of records of its fold after step `until` of its own."""
        part, seed = self.folds[number], self.settings.seed
        place = self.place / f"fold-{number + 1}-of-{len(self.folds)}-seed-{seed}"
        whole = self.judging.run
        training, data = replace(whole.training, evaluate_every=0), HeldOutData(whole, part)
        require_same_fold(place, part, data)
        run = replace(whole, data=data, shuffle=Shuffle(), keep=Keep(), training=training)  # type: ignore[arg-type]
        if _steps_done(place) < until:
            with self.clock.on(TRAINING):
                _, outcome = train_run(Loaded(run, self.judging.table), place, until=until)
            if outcome.signal:
                raise KeyboardInterrupt
        model = load(step_folders(place)[-1], run.training.torch_device())
        return judge(points_here(Judge(model), self.source, asked), model, seed, SHUFFLED, self.settings.reading)


def part_ends(settings: Clean, training: Training, records: int) -> list[int]:
    """The steps that the parts of a run end with."""
    each = round(settings.every * max(1, records // training.batch_size))
    if settings.every >= 1:
        return [*range(each, training.steps, each), training.steps]
    if each * training.batch_size < LEAST * settings.folds:
        steps, per_epoch = -(-LEAST * settings.folds // training.batch_size), max(1, records // training.batch_size)
        least = ceil(100 * steps / per_epoch) / 100
        raise UserError(
            f"clean.every = {settings.every:g} is {each} of the {per_epoch} steps of an epoch, too few pairs for "
            f"{settings.folds} judges to compare, who need {LEAST} each; set it to {least} or more"
        )
    return [*range(each, training.steps - each // 2, each), training.steps]  # a short rest belongs to the part before


def _steps_done(folder: Path) -> int:
    checkpoints = step_folders(folder)
    return step_number(checkpoints[-1]) if checkpoints else 0
