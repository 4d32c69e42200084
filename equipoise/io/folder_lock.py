"""One writer at a time in a folder.

The lock is the kernel's (`flock`), so it is released with its process however that dies; the file only names the owner.
Processes forked from the owner (loader workers) release it, or one that outlives the owner would keep it.
"""

from __future__ import annotations

import os
import socket
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from equipoise.io.atomic import CannotWrite, clear_leftovers
from equipoise.types import UserError

LOCK = ".lock"

_held: set[TextIO] = set()


def _release_in_child() -> None:
    for file in _held:
        file.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_release_in_child)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold `folder`, made if need be, for this process alone; raises UserError with the owner if it has one."""
    is_new = not folder.exists()
    path = folder / LOCK
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = _locked_file(path)
    except OSError as error:
        raise CannotWrite(path, error.strerror or str(error)) from error
    _held.add(file)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # while it is still ours
        _held.discard(file)
        file.close()
        if is_new:
            with suppress(OSError):  # a run that never began leaves nothing
                folder.rmdir()


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Hold `folder` as `locked` does, without what an earlier writer that was killed left half-written in it."""
    with locked(folder):
        clear_leftovers(folder)
        yield


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
