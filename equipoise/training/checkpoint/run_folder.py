"""The folder of a run: one run at a time in it, and whether a run may start or resume there.

The lock is the kernel's (`flock`), so it is released with its process however that dies; the file only names the owner.
Processes forked from the owner (loader workers) release it, or one that outlives the owner would keep it.
"""

from __future__ import annotations

import os
import shutil
import socket
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

from equipoise.io.atomic import CannotWrite, clear_leftovers
from equipoise.models.folder import CHECKPOINTS, CONFIG, STEP
from equipoise.settings.difference import differences, told
from equipoise.training.logging.metrics import METRICS_FILE
from equipoise.types import UserError

LOCK = ".lock"
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
    *MEMORY,
)

_held: set[TextIO] = set()


def _release_in_child() -> None:
    for file in _held:
        file.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_in_child)


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
def locked(folder: Path) -> Iterator[None]:
    """Hold `folder`, made if need be, for this process alone; raises UserError with the owner if it has one.

    What fails before its first checkpoint leaves the folder as it was, so that the next try may begin there."""
    is_new = not folder.exists()
    path = folder / LOCK
    try:
        before = set() if is_new else {inner.name for inner in folder.iterdir()}
        folder.mkdir(parents=True, exist_ok=True)
        file = _locked_file(path)
    except OSError as error:
        raise CannotWrite(path, error.strerror or str(error)) from error
    _held.add(file)
    try:
        yield
    except Exception:
        if not any(folder.rglob(f"{CHECKPOINTS}/{STEP}*")):
            _remove_others(folder, {LOCK, *before})
        raise
    finally:
        path.unlink(missing_ok=True)  # while it is still ours
        _held.discard(file)
        file.close()
        if is_new:
            with suppress(OSError):  # a run that never began leaves nothing
                folder.rmdir()


def _remove_others(folder: Path, kept: set[str]) -> None:
    for path in folder.iterdir():
        if path.name in kept:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _locked_file(path: Path) -> TextIO:
    while True:
        file = path.open("a+", encoding="utf-8")
        _lock(file, path)
        if _is_still(path, file):  # else its owner removed it just now: what we locked has no name any more
            file.truncate(0)
            print(f"process {os.getpid()} on {socket.gethostname()}", file=file, flush=True)
            return file
        file.close()


def _lock(file: TextIO, path: Path) -> None:
    try:
        import fcntl
    except ImportError:
        warnings.warn(f"{path.parent} cannot be locked on this system; start no second run in it", stacklevel=2)
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        owner = file.read().strip() or "another process"
        file.close()
        raise UserError(f"{path.parent} is in use by {owner}; wait for it, stop it or choose another folder") from None
    except OSError as error:  # a network disk without locks
        warnings.warn(f"{path.parent} cannot be locked ({error.strerror}); start no second run in it", stacklevel=2)


def _is_still(path: Path, file: TextIO) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False
