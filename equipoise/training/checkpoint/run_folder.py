"""The folder of a run: whether a run may start or resume there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from equipoise.io.atomic import clear_leftovers
from equipoise.io.folder_lock import LOCK, locked
from equipoise.models.folder import CHECKPOINTS, CONFIG
from equipoise.settings.difference import differences, told
from equipoise.training.checkpoint.finished_work import NothingToKeep, holds_finished_work
from equipoise.training.logging.metrics import METRICS_FILE
from equipoise.types import UserError

STEPS = "training.steps"
MEMORY = (  # decide how much memory the same mathematics takes
    *(f"training.{name}" for name in ("micro_batch", "recompute_activations")),
    "objective.impl",
    *(f"evaluation.{name}" for name in ("batch_size", "chunk")),
)
MAY_CHANGE = (  # the first makes the run longer; none of the others touches a number of it, but for rounding
    STEPS,
    "data.join",  # runs from before it was there; other records than the run's raise UserError in any case
    *(f"training.{name}" for name in ("checkpoint_every", "checkpoint_minutes", "keep_last")),
    *(f"training.{name}" for name in ("workers", "loader_timeout", "rank_timeout")),
    "training.loggers",
    "evaluation.map",
    *MEMORY,
)


def holds_run(folder: Path) -> bool:
    """Whether a run was started in `folder`."""
    return any((folder / name).exists() for name in (CONFIG, METRICS_FILE, CHECKPOINTS))


def require_new(folder: Path) -> None:
    """Raise UserError if `folder` holds a run."""
    if holds_run(folder):
        raise UserError(f"{folder} already holds a run; go on with it by --resume, or choose another folder with --out")
    clear_leftovers(folder)


def require_same(folder: Path, stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Raise UserError unless the settings are those of the run in `folder`, which may only become longer, or be saved
    and fed in another way, or take less memory."""
    changes = differences(stored, wanted)
    if fixed := {key: change for key, change in changes.items() if key not in MAY_CHANGE}:
        raise UserError(f"{folder} holds a run with other settings, so it cannot be resumed: {told(fixed)}")
    before, now = changes.get(STEPS, (0, 0))
    if now < before:
        raise UserError(f"the run in {folder} has {STEPS} = {before}; it can be raised, but not lowered to {now}")
    clear_leftovers(folder)


@contextmanager
def locked_run(folder: Path) -> Iterator[None]:
    """Hold `folder` for this process alone (`io/folder_lock.py`). What fails before anything is done leaves the folder
    as it was, so that the next try may begin there with other settings (`finished_work.py`)."""
    with locked(folder):
        before = {path.name for path in folder.iterdir()}
        try:
            yield
        except Exception as error:
            if isinstance(error, NothingToKeep) or not holds_finished_work(folder):
                _remove_others(folder, {LOCK, *before})
            raise


def _remove_others(folder: Path, kept: set[str]) -> None:
    for path in folder.iterdir():
        if path.name in kept:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
