"""The training loop, top to bottom."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from equipoise.models.model import Model
from equipoise.objectives import Objective
from equipoise.training.average import Average
from equipoise.training.checkpoints import Checkpoints
from equipoise.training.metrics import MetricsLog
from equipoise.training.progress import Progress
from equipoise.training.settings import Training
from equipoise.training.step import NotFinite, Step, StepFacts
from equipoise.types import Batch, UserError

Evaluate = Callable[[Model], dict[str, float]]


@dataclass(frozen=True)
class Outcome:
    records: list[dict[str, float]]  # what metrics.jsonl holds
    step: int  # steps done
    seconds: float  # of training, evaluation and checkpoints left out
    interrupted: bool = False


def train(
    model: Model,
    objective: Objective,
    batches: Iterable[Batch],
    settings: Training,
    *,
    folder: Path,
    config: str,
    evaluate: Evaluate | None = None,
) -> Outcome:
    """Train `model` in place on `batches` for `settings.steps`; metrics and checkpoints go to `folder`.

    Ctrl-C ends the run after saving. A number that is not finite ends it with a sentence, the last checkpoint kept.
    """
    device = settings.torch_device()
    step = Step(model.to(device).train(), objective, settings, device)
    average = Average(model, settings.ema) if settings.ema else None
    checkpoints = Checkpoints(folder, config, settings.best)
    clock, done, validation = _Clock(), 0, dict[str, float]()

    with MetricsLog(folder) as log, Progress(settings.steps) as progress:
        try:
            for number, batch in zip(range(1, settings.steps + 1), batches, strict=False):
                facts = step(batch, number)
                done = number
                clock.count(len(batch))
                if average:
                    average.update(model, number)

                if _is_due(number, settings.log_every, settings.steps):
                    values = _values(facts, model, clock)
                    log.write(number, values)
                    progress.update(number, **_shown(values))

                if evaluate and _is_due(number, settings.evaluate_every, settings.steps):
                    with clock.paused(), average.applied_to(model) if average else nullcontext():
                        validation = evaluate(model)
                        checkpoints.offer(model, number, validation)
                    log.write(number, {f"validation/{name}": value for name, value in validation.items()})
                    progress.note(f"step {number}: {settings.best} {validation[settings.best]:.4g}")

                if _is_due(number, settings.checkpoint_every, settings.steps):
                    with clock.paused():
                        checkpoints.save(model, number, validation, average.weights if average else None)
        except KeyboardInterrupt:
            checkpoints.save(model, done, validation, average.weights if average else None)
            return Outcome(log.records, done, clock.seconds(), interrupted=True)
        except NotFinite as error:
            raise UserError(
                f"{error} at step {done + 1}, so training stopped; {checkpoints.last()}. "
                "Try a lower training.learning_rate, a longer warm-up or training.clip_norm"
            ) from error
    if average:
        model.load_state_dict(average.weights)
    return Outcome(log.records, done, clock.seconds())


def _is_due(number: int, every: int, steps: int) -> bool:
    return number == steps or (every > 0 and number % every == 0)


def _values(facts: StepFacts, model: Model, clock: _Clock) -> dict[str, float]:
    terms = {f"loss/{name}": value.item() for name, value in facts.loss.terms.items()}
    return {
        "loss": facts.loss.total.item(),
        **(terms if len(terms) > 1 else {}),
        "temperature": float(model.log_scale.detach().exp()),
        "at_bound": float(model.temperature.at_bound(model.logit_scale)),
        "learning_rate": facts.learning_rate,
        "grad_norm": facts.grad_norm,
        "pairs_per_second": clock.rate(),
        "seconds": clock.seconds(),
    }


def _shown(values: Mapping[str, float]) -> dict[str, str]:
    return {
        "loss": f"{values['loss']:.3f}",
        "temperature": f"{values['temperature']:.1f}",
        "pairs/s": f"{values['pairs_per_second']:,.0f}",
    }


class _Clock:
    """Seconds and pairs of training proper."""

    def __init__(self) -> None:
        self._start, self._away, self._pairs, self._mark = time.monotonic(), 0.0, 0, (0.0, 0)

    def count(self, pairs: int) -> None:
        self._pairs += pairs

    def seconds(self) -> float:
        return time.monotonic() - self._start - self._away

    def rate(self) -> float:
        """Pairs a second since the last call."""
        (seconds, pairs), self._mark = self._mark, (self.seconds(), self._pairs)
        return (self._pairs - pairs) / max(1e-9, self._mark[0] - seconds)

    @contextmanager
    def paused(self) -> Iterator[None]:
        left = time.monotonic()
        try:
            yield
        finally:
            self._away += time.monotonic() - left
