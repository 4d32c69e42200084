"""One run at a time in a folder.

The lock is the kernel's (`flock`), so it goes with its process however that dies; the file only says whose it is.
Processes forked from the owner (loader workers) let go of it, or one that outlives the owner would keep it.
"""

from __future__ import annotations

import os
import socket
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from equipoise.io.atomic import CannotWrite
from equipoise.types import UserError

LOCK = ".lock"

_held: set[TextIO] = set()


def _let_go() -> None:
    for file in _held:
        file.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Only this process works in `folder`, which is made if need be; another one gets a sentence that names it."""
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
