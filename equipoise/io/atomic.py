"""Writing files so that nothing is ever half-written: a temporary name beside the target, then a rename.

Bytes reach the disk before their name does, so that a power cut cannot leave an empty file under a good name. What a
killed writer leaves behind ends in `.tmp` or `.old` and is cleared at the next start (`clear_leftovers`).
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from equipoise.types import UserError

LEFTOVER = re.compile(r"\.?(?P<name>.+)\.\d+\.(?P<kind>tmp|old)")


class CannotWrite(UserError):
    """Raised when the disk is full, read-only or gone."""

    def __init__(self, path: Path, reason: str):
        super().__init__(f"cannot write {path}: {reason}; free some space or choose another folder")
        self.path, self.reason = path, reason

    def __reduce__(self) -> tuple[type[CannotWrite], tuple[Path, str]]:
        return type(self), (self.path, self.reason)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path` (for a file or a folder); what was written there takes its place at the end,
    or is removed if anything went wrong. Raises CannotWrite if the disk is full or read-only."""
    temporary = _beside(path, "tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove(temporary)  # left by a run that was killed
        yield temporary
        _sync_all(temporary)
        _take_place(temporary, path)
        _sync(path.parent)
    except CannotWrite as error:  # of a file inside a folder: name what the caller asked for
        raise CannotWrite(path, error.reason) from error
    except OSError as error:
        raise CannotWrite(path, error.strerror or str(error)) from error
    finally:
        _remove(temporary)


def write_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def remove_folder(path: Path) -> None:
    """Remove a folder so that it is never seen with a part of its files."""
    doomed = _beside(path, "tmp")
    _remove(doomed)
    path.rename(doomed)
    _remove(doomed)


def clear_leftovers(folder: Path) -> None:
    """Remove half-written files, and bring back a folder whose replacement was never finished. For the only writer."""
    found = [(path, match) for path in folder.glob("*") if (match := LEFTOVER.fullmatch(path.name))]
    for path, match in found:
        home = folder / match["name"]
        if match["kind"] == "old" and not home.exists():
            path.rename(home)
        else:
            _remove(path)


def _beside(path: Path, kind: str) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.{kind}")


def _take_place(new: Path, old: Path) -> None:
    if not new.is_dir() or not old.exists():
        new.replace(old)
        return
    retired = _beside(old, "old")  # a folder cannot be replaced in one call
    _remove(retired)
    old.rename(retired)
    try:
        new.rename(old)
    except BaseException:  # Ctrl-C too: better the old one than none
        retired.rename(old)
        raise
    _remove(retired)


def _sync_all(path: Path) -> None:
    for inner in path.rglob("*") if path.is_dir() else ():
        _sync(inner)
    _sync(path)


def _sync(path: Path) -> None:
    if os.name == "nt" and path.is_dir():
        return  # Windows opens no folders
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove(path: Path) -> None:
    with suppress(OSError):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
