"""Checkpoints of a run: `checkpoints/step-00001200`, of which the last few are kept, and `checkpoints/best`.

Each is a whole model folder; those by step also hold the state of training. A checkpoint is written under another name
and renamed when it is complete, and an older one goes only after that: a kill or a full disk costs at most the new one.
One that cannot be written is a warning, for space may come back; the second in a row ends the run.
Several ranks take every decision here together: all of them call every method.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from equipoise.io.atomic import clear_leftovers, remove_folder
from equipoise.models.folder import BEST, CHECKPOINTS, STEP, save_model, step_folders, write_model
from equipoise.training.checkpoint.rng import seed_by_rank
from equipoise.training.checkpoint.state import RunProgress, TrainingState
from equipoise.training.distributed.ranks import Ranks
from equipoise.training.settings import Training
from equipoise.types import UserError


class Checkpoints:
    """The checkpoints in `run`, the folder of a run that this process has locked."""

    def __init__(self, run: Path, config: str, settings: Training, ranks: Ranks):
        self.run, self.config, self.settings, self.ranks = run, config, settings, ranks
        self.folder = run / CHECKPOINTS
        self._failures = 0
        self._saved, self._saved_at = 0, time.monotonic()
        ranks.on_main(lambda: clear_leftovers(self.folder))

    def start(self, state: TrainingState, resume: bool) -> RunProgress:
        """Load the newest checkpoint, if there is one; gives how far the run has come."""
        found = self.ranks.on_main(lambda: step_folders(self.run))
        if found and not resume:
            raise UserError(f"{self.run} already holds checkpoints; resume that run or choose another folder")
        if not found:
            seed_by_rank(self.ranks)
            return RunProgress()
        position = self.ranks.on_each(lambda: state.read(found[-1]))
        self._saved = position.step
        return position

    def is_due_by_clock(self) -> bool:
        """Whether this rank's clock says that a checkpoint is due; ranks may differ, so let them agree."""
        minutes = self.settings.checkpoint_minutes
        return 0 < minutes <= (time.monotonic() - self._saved_at) / 60

    def save(self, state: TrainingState, position: RunProgress, last_chance: bool = False) -> None:
        """Write a checkpoint, unless this step has one, and remove the outdated."""
        if self._saved == position.step:
            return
        position.processes = self.ranks.world
        snapshot = state.snapshot()

        def write_whole(temporary: Path) -> None:
            temporary.mkdir()
            metrics = {"step": position.step, **position.validation}
            write_model(state.model, temporary, self.config, metrics, snapshot.weights)
            state.write_whole(snapshot, temporary, position)

        def write() -> None:
            with self.ranks.replacing(self.folder / f"{STEP}{position.step:08d}") as temporary:
                self.ranks.on_main(lambda: write_whole(temporary))
                state.write_sharded(snapshot, temporary)

        if self._written(write, last_chance):
            self._saved = position.step
            self.ranks.on_main(self._remove_outdated)
        self._saved_at = time.monotonic()  # also of a failure, which is not to be repeated at every step

    def offer(self, state: TrainingState, position: RunProgress) -> None:
        """Write the weights to `best` if their metric is higher than any before."""
        name, metrics = self.settings.best, position.validation
        if name not in metrics:
            raise UserError(f'training.best = "{name}" is not among the metrics measured: {", ".join(metrics)}')
        former = -math.inf if position.best is None else position.best
        if not metrics[name] > former:  # written so that NaN is never the best
            return
        facts, weights = {"step": position.step, **metrics}, state.weights()

        def write() -> None:
            self.ranks.on_main(lambda: save_model(state.model, self.folder / BEST, self.config, facts, weights))

        if self._written(write, last_chance=False):
            position.best = metrics[name]

    def last(self) -> str:
        """Where the last good weights are, for a sentence."""
        found = step_folders(self.run)
        return f"the last good checkpoint is {found[-1]}" if found else "no checkpoint had been written yet"

    def _remove_outdated(self) -> None:
        for outdated in step_folders(self.run)[: -self.settings.keep_last]:
            remove_folder(outdated)

    def _written(self, write: Callable[[], None], last_chance: bool) -> bool:
        try:
            write()
        except UserError as error:
            self._failures += 1
            if last_chance or self._failures > 1:
                raise UserError(f"{error} ({self.last()})") from error
            warnings.warn(f"{error}; training goes on, but will stop if that happens again", stacklevel=3)
            return False
        self._failures = 0
        return True


def is_due(step: int, every: int, steps: int) -> bool:
    """Whether something that happens `every` so many steps, and at the last, happens after `step`."""
    return step > 0 and (step == steps or (every > 0 and step % every == 0))
