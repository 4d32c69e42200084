"""The training loop, top to bottom."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from equipoise.data.bad_records import tallies_to_json, tally_of_part
from equipoise.data.batches import Batches
from equipoise.data.prefetch import WORKER_ERRORS, lost_worker
from equipoise.io.progress import Progress
from equipoise.models.logit_scale import unit_free
from equipoise.models.model import Model
from equipoise.objectives import Objective
from equipoise.training.checkpoint.checkpoints import LOWER, Checkpoints
from equipoise.training.checkpoint.state import RunProgress, TrainingState
from equipoise.training.distributed.ranks import Ranks
from equipoise.training.distributed.sharded_encoding import sharded_encoding
from equipoise.training.distributed.wrap import device_of_rank
from equipoise.training.ema import EMA
from equipoise.training.finite import NotFinite
from equipoise.training.length import is_due
from equipoise.training.logging.feed_watch import FeedWatch
from equipoise.training.logging.metrics import MetricsLog, NullLogger
from equipoise.training.logging.running_mean import RunningMean
from equipoise.training.logging.throughput import Throughput
from equipoise.training.settings import Training
from equipoise.training.signals import SignalHandler
from equipoise.training.step import Step, StepResult
from equipoise.types import Batch, StepInfo, UserError

Evaluate = Callable[[Model], dict[str, float]]


@dataclass(frozen=True)
class TrainResult:
    records: list[dict[str, float]]  # what metrics.jsonl holds
    step: int  # steps done
    seconds: float  # of training, evaluation and checkpoints left out
    epoch: int  # steps per epoch
    signal: int = 0  # that ended the run before its last step; 0 if none did
    captions_cut: int = 0  # of those trained on, for being longer than the context


def train(
    model: Model,
    objective: Objective,
    batches: Batches,
    settings: Training,
    *,
    folder: Path,
    config: str,
    evaluate: Evaluate | None = None,
    resume: bool = False,
    ranks: Ranks | None = None,
    until: int | None = None,
) -> TrainResult:
    """Train `model` in place on `batches` for `settings.steps`; metrics and checkpoints go to `folder`.

    With `resume`, the newest checkpoint in `folder` is loaded and the run goes on as if it had never stopped.
    SIGTERM and SIGINT (Ctrl-C) end the run after saving. A loss or gradient that is not finite raises UserError.
    Several `ranks` call this together, each with its share of the batches; the first one writes.
    A run that is to be looked at on its way stops and saves after step `until`; it goes on by `resume`.
    """
    if settings.epochs:
        raise UserError("training.epochs is made into training.steps before a run begins; give steps here")
    ranks = ranks or Ranks()
    device = device_of_rank(settings.torch_device(), ranks)
    step = Step(model.to(device).train(), objective, settings, device, ranks)
    state = TrainingState(model, step, EMA(model, settings.ema) if settings.ema else None, ranks)
    checkpoints = Checkpoints(folder, config, settings, ranks)
    position = checkpoints.start(state, resume)
    if not position.step:
        model.tokens.truncated = 0  # by an evaluation of what the run starts from
    _require_same_data(position, len(batches.source), folder)
    _restore_count(batches, position, folder, ranks)
    with (
        _log(folder, position, settings, config) if ranks.is_main else NullLogger() as log,
        Progress(settings.steps, already=position.step) if ranks.is_main else NullLogger() as progress,
        SignalHandler(ranks) as interrupt,
        sharded_encoding(model, ranks, between=interrupt.give_up_together),
    ):
        clock = Throughput(position.seconds)
        run = _Run(
            state, settings, evaluate, position, checkpoints, log, progress, interrupt, clock,
            FeedWatch(batches, clock, device), batches, settings.steps if until is None else min(until, settings.steps),
        )  # fmt: skip
        try:
            run.go()
        except NotFinite as error:
            bad = error.step or position.step + 1
            raise UserError(
                f"{error} at step {bad}, so training stopped; {checkpoints.last(bad - 1)}. {LOWER}"
            ) from error
        except WORKER_ERRORS as error:
            if sentence := lost_worker(error):
                raise UserError(f"{sentence} ({checkpoints.last()})") from error
            raise
    if state.average and not interrupt and run.until == settings.steps:
        state.average.put_into(model)
    return TrainResult(
        log.records, position.step, run.clock.seconds(), _epoch(batches, settings), interrupt.signal,
        ranks.total(model.tokens.truncated),
    )  # fmt: skip


def _log(folder: Path, position: RunProgress, settings: Training, config: str) -> MetricsLog:
    return MetricsLog(folder, position.records, position.step, settings.loggers, config)


def _epoch(batches: Batches, settings: Training) -> int:
    """Steps per epoch."""
    return len(batches.source) // settings.batch_size


@dataclass
class _Run:
    """The state of a run between its start and its end, and its main loop."""

    state: TrainingState
    settings: Training
    evaluate: Evaluate | None
    position: RunProgress
    checkpoints: Checkpoints
    log: MetricsLog | NullLogger
    progress: Progress | NullLogger
    interrupt: SignalHandler
    clock: Throughput
    feed: FeedWatch
    batches: Batches
    until: int  # the step to stop after
    loss: RunningMean = field(default_factory=RunningMean)  # shown; what is logged is the loss of one step

    def go(self) -> None:
        self._evaluate_if_due()  # the run may have been stopped before it could
        stream = self.batches.starting_at(self.position.step)
        while self.position.step < self.until:
            batch = self.interrupt.interruptible(lambda: next(stream, None))
            stopped, clock_says_save = self.interrupt.consensus(self.checkpoints.is_due_by_clock())
            if stopped or batch is None:
                break
            self.feed.batch_came()
            if clock_says_save and self.position.step:
                self._save()
            self._step(replace(batch, moment=self._step_info()))
        on_its_way = self.position.step == self.until < self.settings.steps
        if (self.interrupt.consensus()[0] or on_its_way) and self.position.step:
            self._save()

    def _step_info(self) -> StepInfo:
        """What the next batch says of its step."""
        epoch = _epoch(self.batches, self.settings)
        return StepInfo(self.batches.seed, self.position.step + 1, self.settings.steps, epoch)

    def _step(self, batch: Batch) -> None:
        number = self.position.step + 1
        facts = self.state.step(batch, number, self.state.average)
        if self.state.average:
            self.state.average.update(self.state.model, number)
        self.position.step = number
        self.loss.add(facts.loss.total)
        self.clock.count(len(batch) * self.interrupt.ranks.world)
        self.feed.step_done()
        self._log_if_due(facts)
        if told := self.feed.sentence():
            self.progress.note(told)
        self._evaluate_if_due()
        if is_due(number, self.settings.checkpoint_every, self.settings.steps):
            self._save()

    def _log_if_due(self, facts: StepResult) -> None:
        step = self.position.step
        if is_due(step, self.settings.log_every, self.settings.steps):
            self.state.step.finite.settle()
            values = _values(facts, self.state.model, self.clock)
            self.log.write(step, values)
            self.progress.update(step, **_shown(values, self.loss.mean()))

    def _evaluate_if_due(self) -> None:
        """Evaluate if that is due and not done; if a signal abandons it, the resumed run begins with it."""
        position, model, average = self.position, self.state.model, self.state.average
        first = self.settings.evaluate_start and position.step == 0
        due = first or is_due(position.step, self.settings.evaluate_every, self.settings.steps)
        if not self.evaluate or not due or position.evaluated == position.step:
            return
        self.state.step.finite.settle()
        with self.clock.paused(), average.applied_to(model) if average else nullcontext():
            cut = model.tokens.truncated
            found = self.interrupt.interruptible_together(partial(self.evaluate, model))
            model.tokens.truncated = cut  # an evaluation that a stopped run repeats is not to count twice
            if found is None:
                return
            position.validation = self.interrupt.ranks.on_main(lambda: found)
            self.checkpoints.offer(self.state, position)
        position.evaluated = position.step
        self.log.write(position.step, {f"validation/{name}": value for name, value in position.validation.items()})
        best = self.settings.best
        self.progress.note(f"step {position.step}: {best} {position.validation[best]:.4g}")

    def _save(self) -> None:
        position = self.position
        self.state.step.finite.settle()
        with self.clock.paused():
            self.log.sync()
            position.seconds, position.records = self.clock.seconds(), len(self.log.records)
            position.captions_cut = self.interrupt.ranks.total(self.state.model.tokens.truncated)
            # a batch may have come that no step was made with
            counted = self.interrupt.ranks.gather_objects(self.batches.bad.before(position.step))
            position.bad_records = tallies_to_json(counted)
            is_last = bool(self.interrupt) or position.step == self.until
            self.checkpoints.save(self.state, position, last_chance=is_last)


def _require_same_data(position: RunProgress, samples: int, folder: Path) -> None:
    if position.step and position.samples != samples:
        raise UserError(
            f"the training data has {samples:,} samples, but had {position.samples:,} when the run in {folder} was "
            "saved; bring the data back as it was, or start a new run"
        )
    position.samples = samples


def _restore_count(batches: Batches, position: RunProgress, folder: Path, ranks: Ranks) -> None:
    """Go on counting bad records, so that where a run was stopped does not decide whether they are too many."""
    try:
        batches.bad.tally = tally_of_part(position.bad_records, *ranks.share)
    except ValueError as error:
        raise UserError(
            f"cannot continue from the newest checkpoint in {folder}: {error}; move it away to continue from the one "
            "before it"
        ) from None


def _values(facts: StepResult, model: Model, clock: Throughput) -> dict[str, float]:
    terms = {f"loss/{name}": value.item() for name, value in facts.loss.terms.items()}
    t = float(model.log_scale.detach())
    without_unit = unit_free(t, model.space)
    return {
        "loss": facts.loss.total.item(),
        **(terms if len(terms) > 1 else {}),
        "logit_scale": float(model.log_scale.detach().exp()),
        **({} if without_unit is None else {"unit_free_t": without_unit}),
        **model.facts(),
        **facts.loss.facts(),
        "at_bound": float(model.temperature.at_bound(model.logit_scale)),
        "learning_rate": facts.learning_rate,
        "grad_norm": float(facts.grad_norm),
        "pairs_per_second": clock.rate(),
        "seconds": clock.seconds(),
    }


def _shown(values: Mapping[str, float], loss: float) -> dict[str, str]:
    return {
        "loss": f"{loss:.3f}",
        "logit scale": f"{values['logit_scale']:.1f}",
        "pairs/s": f"{values['pairs_per_second']:,.0f}",
    }
