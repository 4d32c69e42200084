"""Writing files so that nothing is ever half-written: a temporary name beside the target, then a rename."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from equipoise.types import UserError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a temporary path beside `path` (for a file or a folder); what was written there takes its place at the
    end, or is removed if anything went wrong. A full or read-only disk becomes one sentence."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove(temporary)  # left by a run that was killed
        yield temporary
        _take_place(temporary, path)
    except OSError as error:
        raise UserError(
            f"cannot write {path}: {error.strerror or error}; free some space or choose another folder"
        ) from error
    finally:
        _remove(temporary)


def write_text(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _take_place(new: Path, old: Path) -> None:
    if not new.is_dir() or not old.exists():
        new.replace(old)
        return
    retired = old.with_name(f".{old.name}.{os.getpid()}.old")  # a folder cannot be replaced in one call
    _remove(retired)
    old.rename(retired)
    try:
        new.rename(old)
    except BaseException:  # Ctrl-C too: better the old one than none
        retired.rename(old)
        raise
    _remove(retired)


def _remove(path: Path) -> None:
    with suppress(OSError):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
