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
from equipoise.io.digests import read_digests, require_intact, write_digests
from equipoise.models.folder import (
    BEST,
    CHECKPOINTS,
    MODEL_FILES,
    STEP,
    read_tensors,
    save_model,
    step_folders,
    step_number,
    write_model_files,
)
from equipoise.ops.finite import first_not_finite
from equipoise.training.checkpoint.rng import seed_by_rank
from equipoise.training.checkpoint.state import (
    PROGRESS,
    TENSORS,
    RunProgress,
    Snapshot,
    TrainingState,
    cannot_continue,
)
from equipoise.training.distributed.dtensors import local_part
from equipoise.training.distributed.ranks import Ranks
from equipoise.training.settings import Training
from equipoise.types import UserError

WHOLE_FILES = (*MODEL_FILES, TENSORS, PROGRESS)  # that the first rank writes
LOWER = "Try a lower training.learning_rate, a longer warm-up or training.clip_norm"


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
        self.ranks.on_each(lambda: self._require_intact(found[-1]))
        position = self.ranks.on_each(lambda: state.read(found[-1]))
        self._saved = position.step
        return position

    def is_due_by_clock(self) -> bool:
        """Whether this rank's clock says that a checkpoint is due; ranks may differ, so let them agree."""
        minutes = self.settings.checkpoint_minutes
        return 0 < minutes <= (time.monotonic() - self._saved_at) / 60

    def save(self, state: TrainingState, position: RunProgress, last_chance: bool = False) -> None:
        """Write a checkpoint, unless this step has one, and remove the outdated. Raises UserError in place of writing
        one that nobody can use."""
        if self._saved == position.step:
            return
        position.processes = self.ranks.world
        snapshot = state.snapshot()
        self._require_finite(snapshot, position)

        def write_whole(temporary: Path) -> None:
            temporary.mkdir()
            metrics = {"step": position.step, **position.validation}
            write_model_files(state.model, temporary, self.config, metrics, snapshot.weights)
            state.write_whole(snapshot, temporary, position)

        def write() -> None:
            with self.ranks.replacing(self.folder / f"{STEP}{position.step:08d}") as temporary:
                self.ranks.on_main(lambda: write_whole(temporary))
                parts = self.ranks.gather_objects(state.write_sharded(snapshot, temporary))
                sharded = {name: digest for part in parts for name, digest in part.items()}
                self.ranks.on_main(lambda: write_digests(temporary, WHOLE_FILES, position.step, sharded))

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

    def last(self, before: int | None = None) -> str:
        """Where the last good weights are, for a sentence: finite, and of a step `before` one that failed, for weights
        that gave no finite loss are not good."""
        found = step_folders(self.run)
        earlier = (path for path in reversed(found) if before is None or step_number(path) < before)
        if good := next(filter(_is_finite, earlier), None):
            return f"the last good checkpoint is {good}"
        return f"none of the checkpoints in {self.folder} is good" if found else "no checkpoint had been written yet"

    def _require_intact(self, checkpoint: Path) -> None:
        """Raise UserError if a file is not the one that was saved; each rank looks at some of them."""
        try:
            stored = read_digests(checkpoint)
            there = (str(path.relative_to(checkpoint)) for path in checkpoint.rglob("*.safetensors"))
            names = sorted({*WHOLE_FILES, *there, *(stored.sha256 if stored else ())})
            if stored or self.ranks.is_main:  # one note of old checkpoints is enough
                require_intact(checkpoint, names[self.ranks.rank :: self.ranks.world])
        except UserError as error:
            raise cannot_continue(checkpoint, error) from error

    def _require_finite(self, snapshot: Snapshot, position: RunProgress) -> None:
        mine = {name: local_part(t) for name, t in {**snapshot.tensors, **snapshot.sharded, **snapshot.weights}.items()}
        bad = next(filter(None, self.ranks.gather_objects(first_not_finite(mine))), None)
        if bad:
            raise UserError(
                f"{bad} became NaN or infinite by step {position.step}, so that step was not saved and training "
                f"stopped; {self.last()}. {LOWER}"
            )

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


def _is_finite(checkpoint: Path) -> bool:
    """Whether every number of a checkpoint is finite; one that cannot be read is of no use either."""
    try:
        return all(first_not_finite(read_tensors(path)) is None for path in checkpoint.rglob("*.safetensors"))
    except UserError:
        return False
