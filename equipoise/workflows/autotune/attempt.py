"""One try: `equipoise train` in a process of its own for a while, so that want of memory ends nothing but it.

Pairs per second are counted between steps that were logged, from the first one on that came after a fifth of the time:
compiling and the first batches do not count.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from equipoise.settings.toml import literal
from equipoise.training.logging.metrics import read_metrics
from equipoise.types import UserError
from equipoise.workflows.autotune.search import Settings, Tried
from equipoise.workflows.sweep.processes import CHILD, last_message

LOOK = 0.2  # seconds between looks
TO_BEGIN, LEAST_TO_BEGIN = 5.0, 60.0  # times as long until the first step, when data is read and a model compiled
UNCOUNTED = 0.2  # share of the time
METRICS, LOG = "metrics.jsonl", "try.log"
# Nothing but steps; of as many that none is the last.
ONLY_STEPS = (
    "training.steps=100000000", "training.epochs=0", "training.evaluate_every=0", "training.evaluate_start=false",
    "training.checkpoint_every=0", "training.checkpoint_minutes=0", "training.log_every=1", "training.loggers=[]",
    "clean.enabled=false",
)  # fmt: skip


@dataclass(frozen=True)
class Trainer:
    """What all tries have in common."""

    recipe: str
    overrides: Sequence[str]
    words: Sequence[str]
    folder: Path  # for the run of a try, which is removed
    seconds: float
    batch: int

    @property
    def to_begin(self) -> float:
        """Seconds until the first step, at most."""
        return max(LEAST_TO_BEGIN, TO_BEGIN * self.seconds)

    def attempt(self, settings: Settings) -> Tried:
        """Train with these settings for so long."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        run, log = self.folder / "run", self.folder / LOG
        with log.open("wb") as stream:
            process = subprocess.Popen(
                [sys.executable, "-c", CHILD, *self._command(settings, run)], stdin=subprocess.DEVNULL, stdout=stream,
                stderr=stream, start_new_session=True,
            )  # fmt: skip
        try:
            status = self._watch(process, run / METRICS)
            found = _steps(run / METRICS)
            if status is not None:
                return Tried(settings, why=last_message(status, log) or "it ended by itself")
            if not found:
                return Tried(settings, why=f"no step within {self.to_begin:.0f} s; give more seconds")
            rate = throughput(found, self.batch)
            return Tried(settings, rate, "" if rate else f"fewer than 3 steps in {self.seconds:g} s; give more seconds")
        finally:
            _kill(process)
            shutil.rmtree(self.folder, ignore_errors=True)

    def _command(self, settings: Settings, run: Path) -> list[str]:
        tuned = [f"training.{key}={literal(value)}" for key, value in settings.items()]
        changed = [word for setting in (*self.overrides, *ONLY_STEPS, *tuned) for word in ("--set", setting)]
        return ["train", self.recipe, *changed, *self.words, "--out", str(run)]

    def _watch(self, process: subprocess.Popen[bytes], metrics: Path) -> int | None:
        """The status of a run that ended before its time; None where the time is over."""
        began, first = time.monotonic(), 0.0
        while True:
            now = time.monotonic()
            first = first or (now if _steps(metrics) else 0.0)
            if now - first >= self.seconds if first else now - began >= self.to_begin:
                return None
            with suppress(subprocess.TimeoutExpired):
                return process.wait(LOOK)


def throughput(steps: Sequence[tuple[float, float]], batch: int) -> float:
    """Pairs per second of (step, seconds) that were logged; 0 where they are too few to tell."""
    start, stop = steps[0][1], steps[-1][1]
    counted = [one for one in steps if one[1] >= start + UNCOUNTED * (stop - start)]
    if len(counted) < 3:
        return 0.0
    (first, since), (last, until) = counted[0], counted[-1]
    return batch * (last - first) / (until - since)


def _steps(metrics: Path) -> list[tuple[float, float]]:
    if not metrics.exists():
        return []
    with suppress(UserError):  # a line that is being written
        return [(one["step"], one["seconds"]) for one in read_metrics(metrics) if "loss" in one and "seconds" in one]
    return []


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a run and its loaders at once: there is nothing in it to save."""
    with suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
